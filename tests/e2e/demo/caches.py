"""The two ways in which the demo's processes keep K and V in their own memory.

They index the memory by plain numpy, without HawkPool's layout engine: that makes the decode process an
oracle for it. A wrong translation shows as wrong tokens.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from .llama import Halves, Shape

TILE = 16


class RowMajorCache:
    """[layer, K or V, head, token, feature]: what the prefill side keeps."""

    NOTATION = "l c h s d"

    def __init__(self, shape: Shape, tokens: int, memory: memoryview | None = None) -> None:
        dimensions = (shape.layers, 2, shape.kv_heads, tokens, shape.head_dim)
        self.array = _array(dimensions, memory)

    def store(self, layer: int, position: int, k: Halves, v: Halves) -> None:
        """Keep k and v, each [kv_heads, tokens, head_dim], from `position` on."""
        span = slice(position, position + k.shape[1])
        self.array[layer, 0, :, span], self.array[layer, 1, :, span] = k, v

    def load(self, layer: int, tokens: int) -> tuple[Halves, Halves]:
        """Give K and V of the first `tokens` tokens."""
        return self.array[layer, 0, :, :tokens], self.array[layer, 1, :, :tokens]


class TileCache:
    """[layer, K or V, head, token tile, feature tile, 16, 16]: what the decode side keeps."""

    NOTATION = "l c h s1 d1 s0 d0"

    def __init__(self, shape: Shape, tokens: int, memory: memoryview | None = None) -> None:
        self._shape = shape
        rows = -(-tokens // TILE)
        self.array = _array(
            (shape.layers, 2, shape.kv_heads, rows, shape.head_dim // TILE, TILE, TILE), memory
        )

    def store(self, layer: int, position: int, k: Halves, v: Halves) -> None:
        """Keep k and v, each [kv_heads, tokens, head_dim], from `position` on."""
        for which, values in enumerate((k, v)):
            for offset in range(values.shape[1]):
                row, inside = divmod(position + offset, TILE)
                tiles = values[:, offset].reshape(len(values), -1, TILE)
                self.array[layer, which, :, row, :, inside] = tiles

    def digest(self, tokens: int) -> str:
        """SHA-256 of the tiles that the first `tokens` tokens stand in."""
        return hashlib.sha256(self.array[:, :, :, : -(-tokens // TILE)].tobytes()).hexdigest()

    def load(self, layer: int, tokens: int) -> tuple[Halves, Halves]:
        """Give K and V of the first `tokens` tokens, read out of the tiles."""
        rows = -(-tokens // TILE)
        straight = self.array[layer, :, :, :rows].transpose(0, 1, 2, 4, 3, 5)
        flat = straight.reshape(2, self._shape.kv_heads, rows * TILE, self._shape.head_dim)[:, :, :tokens]
        return flat[0], flat[1]


def _array(dimensions: tuple[int, ...], memory: memoryview | None) -> NDArray[np.float16]:
    if memory is None:
        return np.zeros(dimensions, np.float16)
    return np.frombuffer(memory, np.float16, count=int(np.prod(dimensions))).reshape(dimensions)

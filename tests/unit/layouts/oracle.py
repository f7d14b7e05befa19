"""A translation worked out index by index. It shares no code with the product, on purpose.

An axis word is a letter and an optional level; the value of a level is ``index // below % size`` with
`below` the product of the finer levels' sizes, and the place of an element is the dot product of its
digits with strides. That is all it knows.
"""

from dataclasses import dataclass, field

import numpy as np

AXES = "lcbhsd"


@dataclass
class Side:
    """One side of a translation, described by plain lists."""

    words: list[str]  # outermost first, such as ["[s1]", "h", "s0", "d"]
    sizes: dict[str, int]  # axes and levels; the coarsest of an indexed axis is the pool
    windows: dict[str, tuple[int, int]] = field(default_factory=dict)
    strides: dict[str, int] = field(default_factory=dict)
    offset: int = 0
    table: list[int] | None = None

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def names(self, axis: str) -> list[str]:
        """Level names of an axis, finest first."""
        found = [w.strip("[]") for w in self.words if w.strip("[]")[0] == axis]
        return sorted(found, key=lambda name: int(name[1:] or 0))

    def level_size(self, name: str) -> int:
        axis, names = name[0], self.names(name[0])
        if name != names[-1]:
            return self.sizes[name]
        if len(names) > 1 and name in self.sizes:
            return self.sizes[name]
        below = int(np.prod([self.sizes[n] for n in names[:-1]] or [1]))
        return -(-self.sizes.get(axis, 1) // below)

    def steps(self) -> dict[str, int]:
        """Elements between two values of each level."""
        steps, stride = {}, 1
        for word in reversed(self.words):
            name = word.strip("[]")
            steps[name] = self.strides.get(name, stride)
            stride = steps[name] * self.level_size(name)
        return steps

    def elements(self) -> int:
        return self.offset + 1 + sum((self.level_size(n) - 1) * step for n, step in self.steps().items())

    def places(self, axis: str, indices: range) -> np.ndarray:
        """Elements that each index of one axis adds to an element's place."""
        steps, names = self.steps(), self.names(axis)
        added = np.zeros(len(indices), np.int64)
        for k, index in enumerate(indices):
            for name in names:
                below = 1
                for finer in names[: names.index(name)]:
                    below *= self.sizes[finer]
                value = index // below
                if name != names[-1]:
                    value %= self.sizes[name]
                if f"[{name}]" in self.words:
                    value = self.table[value]
                added[k] += value * steps[name]
        return added

    def window(self, axis: str) -> tuple[int, int]:
        return self.windows.get(axis, (0, self.sizes.get(axis, 1)))

    def padded(self, axis: str) -> int:
        """Where the zeroed padding of an axis ends."""
        stop = self.window(axis)[1]
        if stop != self.sizes.get(axis, 1):
            return stop
        below = int(np.prod([self.sizes[n] for n in self.names(axis)[:-1]] or [1]))
        return -(-stop // below) * below


def translate(source: Side, destination: Side, data: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the bytes that the destination must hold afterwards; `before` has its bytes and sentinels."""
    after = before.copy()
    if any(source.window(axis)[0] == source.window(axis)[1] for axis in AXES):
        return after
    after[grid(destination, {a: range(destination.window(a)[0], destination.padded(a)) for a in AXES})] = 0
    here = grid(source, {a: range(*source.window(a)) for a in AXES})
    there = grid(destination, {a: range(*destination.window(a)) for a in AXES})
    after[there] = data[here]
    return after


def grid(side: Side, indices: dict[str, range]) -> np.ndarray:
    """The place of every element of a box, as a six-dimensional array."""
    at = np.full((1,) * 6, side.offset, np.int64)
    for k, axis in enumerate(AXES):
        shape = [1] * 6
        shape[k] = -1
        at = at + side.places(axis, indices[axis]).reshape(shape)
    return at

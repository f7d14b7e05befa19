"""Layouts by the names that people use."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hawk_agent.layouts.errors import LayoutError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Preset:
    """A notation with the tile and page sizes that go with its name."""

    notation: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    about: str = ""


PRESETS: dict[str, Preset] = {
    "row-major": Preset("l c b h s d", {}, "one array, tokens of a head after each other"),
    "token-major": Preset("l c b s h d", {}, "one array, heads of a token after each other"),
    "pages-hnd": Preset(
        "l c [s1] h s0 d", {"s0": 16}, "pages by block table, K and V apart, heads outside tokens"
    ),
    "pages-nhd": Preset(
        "l c [s1] s0 h d", {"s0": 16}, "pages by block table, K and V apart, tokens outside heads"
    ),
    "pages-hnd-together": Preset("l [s1] c h s0 d", {"s0": 16}, "as pages-hnd, a page holds K, then V"),
    "pages-nhd-together": Preset("l [s1] c s0 h d", {"s0": 16}, "as pages-nhd, a page holds K, then V"),
    "pages-hnd-interleaved": Preset(
        "l [s1] h s0 c d", {"s0": 16}, "as pages-hnd, K and V of a token side by side"
    ),
    "tiles-16x16": Preset("l c b h s1 d1 s0 d0", {"s0": 16, "d0": 16}, "tiles of 16 tokens by 16 features"),
    "tiles-32x32": Preset("l c b h s1 d1 s0 d0", {"s0": 32, "d0": 32}, "tiles of 32 tokens by 32 features"),
    "pages-tiles-16x16": Preset(
        "l c [s2] h s1 d1 s0 d0", {"s1": 8, "s0": 16, "d0": 16}, "pages of 128 tokens made of 16x16 tiles"
    ),
    "pages-tiles-32x32": Preset(
        "l c [s2] h s1 d1 s0 d0", {"s1": 4, "s0": 32, "d0": 32}, "pages of 128 tokens made of 32x32 tiles"
    ),
    "nz": Preset("l c b h d1 s1 s0 d0", {"s0": 16, "d0": 16}, "columns of tiles, 16 features wide"),
    "nz-32": Preset(
        "l c b h d1 s1 s0 d0", {"s0": 16, "d0": 32}, "columns of tiles, 32 features wide (8-bit types)"
    ),
    "transposed": Preset("l c b h d s", {}, "features outside tokens, as some keep K"),
    "latent": Preset("l b s d", {}, "one compressed vector a token (MLA)"),
    "pages-latent": Preset("l [s1] s0 d", {"s0": 64}, "one compressed vector a token, in pages (MLA)"),
}


def preset_layout(name: str) -> Preset:
    """The preset of this name.

    Raises:
        LayoutError: there is none.
    """
    if name not in PRESETS:
        raise LayoutError(f"preset: {unknown_preset_message(name)}")
    return PRESETS[name]


def unknown_preset_message(name: str) -> str:
    """The message for a name that is no preset's: the nearest one, and all."""
    near = difflib.get_close_matches(name.lower(), PRESETS, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? Use" if near else "use"
    return f"unknown layout {name!r}; {hint} one of {', '.join(PRESETS)}"

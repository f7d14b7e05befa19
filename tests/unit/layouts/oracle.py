"""A translation worked out element by element. It shares no code with the product, on purpose.

An axis word is a letter and an optional level; the value of a level is ``index // below % size`` with
`below` the product of the finer levels' sizes, and the place of an element is the dot product of its
digits with strides. That is all it knows.
"""

from dataclasses import dataclass, field
from itertools import product

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

    def place(self, index: dict[str, int], steps: dict[str, int]) -> int:
        at = self.offset
        for word in self.words:
            name = word.strip("[]")
            names = self.names(name[0])
            below = 1
            for finer in names[: names.index(name)]:
                below *= self.sizes[finer]
            value = index[name[0]] // below
            if name != names[-1]:
                value %= self.sizes[name]
            if word.startswith("["):
                value = self.table[value]
            at += value * steps[name]
        return at

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
    """What the destination must hold afterwards; `before` is what it held, sentinels included."""
    after = before.copy()
    from_steps, to_steps = source.steps(), destination.steps()
    starts = [(source.window(a)[0], destination.window(a)) for a in AXES]
    spans = [range(to[0], destination.padded(a)) for a, (_, to) in zip(AXES, starts, strict=True)]
    if any(source.window(a)[0] == source.window(a)[1] for a in AXES):
        return after
    for there in product(*spans):
        to = destination.place(dict(zip(AXES, there, strict=True)), to_steps)
        if all(i < window[1] for i, (_, window) in zip(there, starts, strict=True)):
            here = {
                a: first + i - window[0] for a, i, (first, window) in zip(AXES, there, starts, strict=True)
            }
            after[to] = data[source.place(here, from_steps)]
        else:
            after[to] = 0
    return after

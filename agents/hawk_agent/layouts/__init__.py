"""KV cache layouts: one algebra, one compiled nest, translation at the speed of a copy.

A `Layout` says where each element of a KV cache stands. `compile_nest` turns a pair of them into a
`Nest`, a handful of loops round a contiguous run, proved to move each element once. A nest runs,
hashes, packs and unpacks; it knows nothing of devices, agents or networks.

>>> source = Layout.parse("b h s d", {"h": 8, "s": 128, "d": 64}, "float16")
>>> target = Layout.preset("tiles-16x16", {"h": 8, "s": 128, "d": 64}, "float16")
>>> nest = compile_nest(source, target)
>>> out = bytearray(target.nbytes)
>>> nest.run(bytes(source.nbytes), out)
"""

from hawk_agent.layouts.compatible import Mismatch, mismatches
from hawk_agent.layouts.coverage import CoverageError
from hawk_agent.layouts.errors import LayoutError
from hawk_agent.layouts.heads import HeadExchange, head_exchanges, heads_of_rank
from hawk_agent.layouts.layout import Layout
from hawk_agent.layouts.nest import Nest, compile_nest
from hawk_agent.layouts.presets import PRESETS, Preset

__all__ = [
    "PRESETS",
    "CoverageError",
    "HeadExchange",
    "Layout",
    "LayoutError",
    "Mismatch",
    "Nest",
    "Preset",
    "compile_nest",
    "head_exchanges",
    "heads_of_rank",
    "mismatches",
]

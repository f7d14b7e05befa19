"""Hundreds of transfers of random shape through two agents, each compared with an oracle that shares no code.

    make soak-transfers                  500 of them, half over shared memory and half over TCP
    make soak-transfers HAWK_SOAK=5000   more

Whatever differs between requests differs here: layouts, sizes, element types, block tables, prefixes that are
there already, chunks, and how much is verified. Afterwards nothing may be held: no lease, no descriptor.
"""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hawk_agent.client import allocate_shared
from hawk_agent.layouts import PRESETS, Layout
from hawk_agent.transfer.outcome import TransferOutcome
from tests.unit.agent.house import house, off
from tests.unit.layouts.oracle import Side, translate
from tests.unit.layouts.strategies import DTYPES

if TYPE_CHECKING:
    from hawk_agent.client import AgentClient

TRANSFERS = int(os.environ.get("HAWK_SOAK", "500"))
LAYOUTS = sorted(set(PRESETS) - {"latent", "pages-latent"})
UNTOUCHED = 0xEE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60 + 2 * TRANSFERS)]


@dataclass(frozen=True)
class Case:
    """One transfer: both sides as the oracle sees them, and how it is to be made."""

    source: Side
    destination: Side
    dtype: str
    prefix: int
    tokens: int
    chunk_layers: int
    verify: str


def draw(rng: random.Random) -> Case:
    """A case of a few hundred kilobytes at most."""
    tokens = rng.choice([1, 15, 16, 17, 100, 128, 129, rng.randint(1, 400)])
    axes = {"l": rng.randint(1, 6), "c": 2, "h": rng.randint(1, 4), "s": tokens}
    axes["d"] = rng.choice([16, 32, 48, 64, rng.randint(1, 40)])
    prefix = rng.choice([0, 0, rng.randrange(tokens)])
    sides = [side(rng, rng.choice(LAYOUTS), axes, prefix) for _ in range(2)]
    return Case(
        *sides,
        dtype=rng.choice(sorted(DTYPES)),
        prefix=prefix,
        tokens=tokens,
        chunk_layers=rng.randint(0, axes["l"]),
        verify=rng.choice(["Always", "Always", "Sampled", "Off"]),
    )


def side(rng: random.Random, name: str, axes: dict[str, int], prefix: int) -> Side:
    """A preset as the oracle writes it, in a pool with pages to spare, its table in any order."""
    preset = PRESETS[name]
    made = Side(preset.notation.split(), {**axes, **preset.sizes}, {"s": (prefix, axes["s"])})
    paged = [word.strip("[]") for word in made.words if word.startswith("[")]
    if paged:
        need = made.level_size(paged[0])
        pool = need + rng.randint(0, 3)
        made.sizes[paged[0]] = pool
        made.table = rng.sample(range(pool), need)
    return made


@pytest.mark.parametrize("transport", ["shm", "tcp"])
async def test_every_transfer_arrives_as_the_oracle_says(transport: str) -> None:
    seed = int(os.environ.get("HAWK_SOAK_SEED", random.SystemRandom().randrange(2**32)))
    print(f"HAWK_SOAK_SEED={seed}")
    rng = random.Random(f"{seed} {transport}")
    with tempfile.TemporaryDirectory(prefix="hawk-") as folder:
        async with house(Path(folder)) as built:
            await built.agent("gpu", transports=(transport,))
            await built.agent("npu", transports=(transport,))
            await built.wire(("gpu", "npu"), ("npu", "gpu"))  # as the operator does: pairs
            ends = (await built.engine("gpu"), await built.engine("npu"))
            held: list[int] = []
            for number in range(TRANSFERS // 2):
                await run(ends, draw(rng), number)
                held.append(descriptors())
            busy = [lease for agent in built.agents.values() for lease in agent.table.live()]

    assert not busy
    assert max(held[len(held) // 2 :]) <= max(held[: len(held) // 2]) + 4, "descriptors that nobody closes"


async def run(ends: tuple[AgentClient, AgentClient], case: Case, number: int) -> None:
    """One transfer, from registering both regions to comparing every byte of the destination."""
    gpu, npu = ends
    kind, name = DTYPES[case.dtype], f"kv-{number}"
    source = await off(Opened, gpu, name, case.source, case.dtype, "prefill")
    target = await off(Opened, npu, name, case.destination, case.dtype, "decode")
    data = np.frombuffer(source.memory, kind)
    data[:] = np.random.default_rng(number).integers(0, np.iinfo(kind).max, data.size, dtype=kind)
    found = np.frombuffer(target.memory, kind)
    found.view(np.uint8)[:] = UNTOUCHED
    expected = translate(case.source, case.destination, data, found)
    windows = {"s": (case.prefix, case.tokens)} if case.prefix else None
    lease = await off(
        npu.reserve, name, name, blocks=case.destination.table or (), windows=windows, verify=case.verify
    )
    transfer = await off(
        gpu.push,
        lease.ticket,
        name,
        case.chunk_layers,
        all_complete=True,
        blocks=case.source.table or (),
        windows=windows,
    )
    await off(npu.wait, lease, case.source.sizes["l"] - 1)
    same = np.array_equal(found, expected)
    received, sent = await off(npu.acknowledge, lease), await off(transfer.result)
    del data, found
    for opened in (source, target):
        await off(opened.close)

    assert (sent.outcome, received.outcome) == (TransferOutcome.SUCCESS, TransferOutcome.SUCCESS), case
    assert same, case


class Opened:
    """A region that an engine registered, with its memory."""

    def __init__(self, engine: AgentClient, name: str, side: Side, dtype: str, group: str) -> None:
        layout = Layout.parse(side.text, side.sizes, dtype)
        self.engine, self.name = engine, name
        self.descriptor, self.memory = allocate_shared(name, layout.nbytes)
        engine.register(
            name,
            self.descriptor,
            side.text,
            side.sizes,
            dtype,
            pool="default/llama",
            group=group,
            worker=f"{group}-0",
        )

    def close(self) -> None:
        """Unregister it and give the memory back."""
        self.engine.unregister(self.name)
        self.memory.close()
        os.close(self.descriptor)


def descriptors() -> int:
    """Files that this process holds open, agents and engines together."""
    return len(list(Path("/proc/self/fd").iterdir()))

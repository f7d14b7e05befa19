"""The page on RDMA is true: its examples run, its numbers, names and commands are the product's."""

import doctest
import re
from pathlib import Path

import pytest

from hawk_agent.metrics import AgentMetrics
from hawk_agent.plans import RequestLimits
from hawk_agent.service.settings import AgentSettings
from hawk_agent.transfer.outcome import TransferOutcome
from hawk_agent.transports import nixl
from hawk_agent.transports.verbs import (
    errors,
    fence,
    immediate,
    lane,
    mlx5_keys,
    mlx5_model,
    posting,
    registration,
    strategy,
)
from hawk_api.settings import flag
from hawk_cli.commands import bench, layout

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "rdma.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_examples_run():
    done = doctest.testfile(str(PAGE), module_relative=False)

    assert done.attempted > 15
    assert done.failed == 0


@pytest.mark.parametrize(
    ("said", "number"),
    [
        (r"leases of at most (\d+) ranges per rail", fence.MOST_WINDOWS),
        (r"(\d+) requests are in flight per rail", lane.DEPTH),
        (r"a chain of up to (\d+)\s", posting.CHAIN),
        (r"a header and (\d+) pieces", RequestLimits().key_entries),
        (r"16-bit field: at most ([\d,]+)", RequestLimits().key_stride_bytes),
        (r"one work request of ([\d,]+) bytes", mlx5_model._WQE_BYTES),
        (r"the driver reserves (\d+)", mlx5_model._RESERVED_BYTES),
        (r"slot \((\d)\)", immediate.SLOTS.bit_length() - 1),
        (r"generation \((\d)\)", immediate.GENERATIONS.bit_length() - 1),
        (r"chunk \((\d+)\)", immediate.CHUNKS.bit_length() - 1),
        (r"share \((\d)\)", immediate.SHARES.bit_length() - 1),
        (r"registered buffer of (\d+) MiB", nixl.ROOM >> 20),
        (r"fewer than (\d+)|least four consecutive", strategy.FEW_FEATURES),
    ],
)
def test_a_number_is_the_products(said, number):
    found = re.search(said, " ".join(TEXT.split()))

    assert found, said
    assert int((found.group(1) or "4").replace(",", "")) == number


def test_every_strategy_fence_and_outcome_has_its_name():
    for way in strategy.VerbsStrategy:
        assert f"`{way.value}`" in TEXT
    for kind in fence.FenceKind:
        assert f"`{kind.value}`" in TEXT
    assert TransferOutcome.TRANSPORT_FAILED.label in TEXT
    assert TransferOutcome.PEER_LOST.label in TEXT


def test_every_error_in_the_table_is_a_class_with_that_reason():
    named = re.findall(r"`(\w+Error)`(?:, `([\w-]+)`)?", TEXT)

    assert len(named) >= 8
    for name, reason in named:
        kind = getattr(errors, name)
        assert issubclass(kind, errors.VerbsError)
        assert not reason or kind.reason == reason


def test_every_metric_is_exported():
    exported = {family.name for family in AgentMetrics().registry.collect()}

    for name in set(re.findall(r"hawk_agent_\w+", TEXT)):
        assert name.removesuffix("_total") in exported, name


def test_the_access_flags_are_those_of_each_role():
    assert registration.GATHERED == 0
    assert registration.PULLED is registration.AccessFlags.IBV_ACCESS_REMOTE_READ
    assert (
        registration.DESTINATION
        == registration.AccessFlags.IBV_ACCESS_LOCAL_WRITE | registration.AccessFlags.IBV_ACCESS_REMOTE_WRITE
    )
    assert (
        registration.WINDOWED
        == registration.AccessFlags.IBV_ACCESS_LOCAL_WRITE | registration.AccessFlags.IBV_ACCESS_MW_BIND
    )


def test_every_option_and_command_is_there():
    agent = {flag(name) for name in AgentSettings.model_fields}
    (line,) = re.findall(r"\$ hawk-agent ([^\n]*)", TEXT)

    assert set(re.findall(r"--[\w-]+", line)) <= agent
    assert {"--rdma-gid-index", "--strategy", "--transports"} <= agent
    groups = {"layout": layout.app, "bench": bench.app}
    for group, command in set(re.findall(r"hawk (layout|bench) (\w+)", TEXT)):
        names = {one.name or one.callback.__name__ for one in groups[group].registered_commands}
        assert command in names, command


def test_files_and_modules_it_names_are_there():
    for name in re.findall(r"`(tests/[\w/]+)`", TEXT):
        assert (ROOT / name).is_dir(), name
    for name in re.findall(r"\]\((\w+\.md)\)", TEXT):
        assert (PAGE.parent / name).is_file(), name
    for module in (mlx5_keys, mlx5_model):
        assert f"`{module.__name__.rpartition('.')[2]}`" in TEXT

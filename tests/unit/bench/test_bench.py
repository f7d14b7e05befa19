"""The benchmarks measure what they say, and stop when the bytes are wrong."""

import json
import shutil

import pytest

from hawk_agent.layouts import Nest, engines
from hawk_cli.app import main
from hawk_cli.bench import between, copying, network
from hawk_cli.bench.baselines import libraries
from hawk_cli.bench.baselines.environments import baseline
from hawk_cli.bench.errors import BenchError
from hawk_cli.bench.measure import Measurements, Taken, interleave_cases, spread
from hawk_cli.bench.workload import CopyWorkload

compiled = pytest.mark.skipif(len(engines.available()) == 1, reason="missing tool: a C compiler, for copies")


def test_each_case_runs_once_a_round_in_changing_order_and_the_warm_up_is_dropped():
    ran = []
    cases = {name: (lambda name=name: ran.append(name) or Taken(len(ran), 1.0)) for name in "abc"}

    found = interleave_cases(cases, rounds=7, warm_up=1)

    rounds = [ran[at : at + 3] for at in range(0, 24, 3)]
    assert all(sorted(order) == ["a", "b", "c"] for order in rounds)
    assert len({tuple(order) for order in rounds}) > 1
    assert [turn.wall for turn in found.taken["a"]] == [
        3 * at + order.index("a") + 1 for at, order in enumerate(rounds) if at
    ]


def test_a_speedup_is_the_median_of_the_rounds_ratios():
    """A round in which everything was slow doesn't count more than the others."""
    found = Measurements(
        {
            "ours": [Taken(1, 1), Taken(10, 10), Taken(1, 1)],
            "theirs": [Taken(2, 4), Taken(20, 40), Taken(3, 4)],
        }
    )

    assert found.speedup("ours", "theirs").median == 2
    assert found.speedup("ours", "theirs", cpu=True).median == 4


def test_one_round_has_no_spread():
    assert spread([3.0]).low == spread([3.0]).median == spread([3.0]).high == 3.0


@compiled
def test_bench_copy_prints_ratios_with_their_spread(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bench", "copy", "--mib", "1", "--rounds", "2", "--output", "json"])
    answer = json.loads(capsys.readouterr().out)

    assert ended.value.code in {None, 0}
    keys = ["fused_over_nt_memcpy", "fused_over_memcpy", "digest_share", "digest_share_of_32_byte_runs"]
    keys += ["process_fused_over_nt_memcpy", "process_fused_over_cma", "process_fused_over_cma_bounce"]
    for key in keys:
        low, high = answer[f"{key}_spread"]
        assert low <= answer[key] <= high
    assert answer["size_bytes"] == 1 << 20


@compiled
def test_bench_tcp_compares_with_plain_tcp(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bench", "tcp", "--mib", "1", "--rounds", "2", "--output", "json"])
    answer = json.loads(capsys.readouterr().out)

    assert ended.value.code in {None, 0}
    assert answer["tcp_over_plain_tcp_spread"][0] <= answer["tcp_over_plain_tcp"]
    assert answer["tcp_over_plain_tcp_cpu"] > 0


def test_bench_tcp_stops_when_other_bytes_arrive(monkeypatch):
    monkeypatch.setattr(Nest, "digest_source", lambda *_: 1)

    with pytest.raises(BenchError, match="what arrived over TCP differs"):
        network.bench_tcp(1, 1)


def test_bench_plan_compiles_at_both_lengths(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bench", "plan", "--rounds", "2", "--from", "pages-nhd", "--output", "json"])
    answer = json.loads(capsys.readouterr().out)

    assert ended.value.code in {None, 0}
    assert answer["loops_at_32768_tokens"] == answer["loops_at_131072_tokens"]
    assert answer["pieces_at_131072_tokens"] == 4 * answer["pieces_at_32768_tokens"]
    assert answer["chosen_on_one_host_at_32768_tokens"] == "fused-copy"


def test_a_system_library_that_is_there_is_not_fetched(tmp_path):
    assert libraries.found((), tmp_path) == {}
    if shutil.which("dpkg-query"):
        assert libraries.found(("libc6",), tmp_path) == {}
    assert not list(tmp_path.iterdir())


def test_libraries_are_found_wherever_their_packages_put_them(monkeypatch, tmp_path):
    monkeypatch.setattr(libraries, "_installed", lambda _: False)
    for place in ("lib/x86_64-linux-gnu/libnl-3.so.200", "usr/lib/x86_64-linux-gnu/libibverbs.so.1"):
        library = tmp_path / "libibverbs1" / place
        library.parent.mkdir(parents=True)
        library.touch()
    (tmp_path / "libibverbs1" / ".complete").touch()

    path = libraries.found(("libibverbs1",), tmp_path)["LD_LIBRARY_PATH"]

    folders = [f"{tmp_path}/libibverbs1/{lib}/x86_64-linux-gnu" for lib in ("lib", "usr/lib")]
    assert path.split(":") == folders


@pytest.mark.slow
def test_a_system_library_that_nobody_has_is_an_error_that_says_so(tmp_path):
    with pytest.raises(BenchError, match=r"apt-get: .*are its lists there"):
        libraries.fetch_library(["no-such-library-anywhere"], tmp_path)


@compiled
def test_wrong_bytes_end_a_benchmark(monkeypatch):
    monkeypatch.setattr(CopyWorkload, "digests", lambda *_: (1, 2))

    with pytest.raises(BenchError, match="digest"):
        copying.bench_copy(1, 1, pairs=(("row-major", "tiles-16x16"),))
    with pytest.raises(BenchError, match="digest"):
        between.bench_between(1, 1)


def test_an_unknown_baseline_is_named():
    with (
        pytest.raises(BenchError, match="baseline: 'rsync' isn't known; use one of nixl, mooncake"),
        baseline("rsync", 1),
    ):
        pass


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("copy --mib 0", "error: --mib: 0; give a size from 1 to 4096 MiB"),
        ("tcp --mib 4097", "error: --mib: 4097; give a size"),
        ("descriptors --mib -1", "error: --mib: -1; give a size"),
        ("copy --rounds 0", "error: --rounds: 0; give a number"),
        ("copy --baseline rsync", "error: --baseline: 'rsync' isn't known; use one of nixl, mooncake"),
        ("plan --from tile", "error: --from: unknown layout 'tile'; did you mean"),
        ("plan --to tile", "error: --to: unknown layout 'tile'; did you mean"),
    ],
)
def test_what_can_not_be_measured_is_refused_by_the_name_of_its_option(capsys, words, says):
    with pytest.raises(SystemExit) as ended:
        main(["bench", *words.split()])

    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(says)


def test_without_the_kernel_there_is_nothing_to_compare_with(monkeypatch, capsys):
    monkeypatch.setenv("HAWK_ENGINE", "numpy")
    with pytest.raises(SystemExit) as ended:
        main(["bench", "copy", "--mib", "1"])

    assert ended.value.code == 1
    assert "build the C kernel" in capsys.readouterr().err

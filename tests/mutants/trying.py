"""Run a room's tests against mutants of its files, in forks of a process that has everything ready.

In place: the tests are collected and run once unchanged, and it is noted which lines each of them reaches.
Then for each mutant the process forks, the changed code is put into the function that holds it, and the tests
that reach its line run, quickest first, until one fails. A mutant takes little longer than its tests then.

Afresh: where a change takes effect at import, or where a function ran already while the tests were collected
and a mutant of it has survived in place, a process that has imported nothing of ours yet forks, and runs all
tests of the room with the changed file.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import importlib.machinery
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

import coverage
import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.mutants.source import Mutant

MEMORY_BYTES = 8 << 30
OPTIONS = [
    "--quiet", "-Wignore::pytest.PytestAssertRewriteWarning", "-m", "not slow", "--timeout=120",
    *("-pno:" + name for name in ("cacheprovider", "xdist", "pytest_cov")),
]  # fmt: skip
IMPORTED = ""
"""The name under which coverage notes what runs before the first test."""
OURS = ("hawk_", "tests", "__editable__")

# Slips show in the first examples or hardly ever; a failure need not be made small.
EXAMPLES = 20
PROPERTIES = hypothesis.settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    suppress_health_check=list(hypothesis.HealthCheck),
)


@dataclass(frozen=True)
class Outcome:
    """A mutant's fate.

    Attributes:
        killed: by what ("test", "crash", "time"), or None: it survived.
        tests: how many tests reach it.
        sure: False when it survived in place and has to be tried afresh.
    """

    killed: str | None
    tests: int
    sure: bool = True


@dataclass
class Baseline:
    """A run of the unchanged tests: CPU seconds of each, and the foreign modules that they import."""

    seconds: dict[str, float] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)


def try_all(
    mutants: Sequence[Mutant],
    paths: Sequence[Path],
    tests: Sequence[str],
    report: Callable[[Mutant, Outcome], None],
) -> None:
    """Try every mutant of the files in `paths`, and report each once.

    Raises:
        RuntimeError: the tests fail without any mutant, or a mutant can't be tried.
    """
    inside = [mutant for mutant in mutants if mutant.function is not None]
    afresh = [mutant for mutant in mutants if mutant.function is None]
    reading, writing = os.pipe()
    log = tempfile.TemporaryFile()  # noqa: SIM115 -- a child's output, wanted only when it fails
    child = os.fork()
    if child == 0:
        os.close(reading)
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        with os.fdopen(writing, "wb") as sink:
            plugin = _InPlace(inside, paths, lambda result: (pickle.dump(result, sink), sink.flush()))
            os._exit(int(pytest.main([*OPTIONS, *tests], plugins=[plugin])))
    os.close(writing)
    with os.fdopen(reading, "rb") as source, contextlib.suppress(EOFError):
        baseline = pickle.load(source)
        for mutant in inside:
            outcome = pickle.load(source)
            if outcome.sure:
                report(mutant, outcome)
            else:
                afresh.append(mutant)
    log.seek(0)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError(
            "the tests fail without any mutant, or one could not be tried:\n" + log.read().decode()
        )
    for name in baseline.modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for mutant in afresh:
        report(mutant, _in_child(functools.partial(_afresh, mutant, tests, baseline), len(baseline.seconds)))


def _afresh(mutant: Mutant, tests: Sequence[str], baseline: Baseline) -> None:
    """Run in a child: every test, quickest first, with the changed file in place of the one on disk."""
    _limit(baseline.seconds.values())
    original = importlib.machinery.SourceFileLoader.get_code

    def changed(loader: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        return _compiled(mutant) if loader.path == str(mutant.path) else original(loader, name)

    importlib.machinery.SourceFileLoader.get_code = changed

    class Order:
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            items.sort(key=lambda item: baseline.seconds.get(item.nodeid, 0.0))
            for item in items:
                _few_examples(item)

    if pytest.main(["--exitfirst", *OPTIONS, *tests], plugins=[Order()]):
        os._exit(1)


class _InPlace:
    """The plugin that makes pytest's one run of the tests into one for each mutant.

    `send` is given the `Baseline`, and then an `Outcome` for each mutant.
    """

    def __init__(
        self, mutants: Sequence[Mutant], paths: Sequence[Path], send: Callable[[object], object]
    ) -> None:
        self._mutants, self._send = mutants, send
        self._coverage = coverage.Coverage(
            data_file=None, include=[str(path) for path in paths], config_file=False
        )
        self._coverage.start()
        self._child = False
        self._failed: list[str] = []
        self._baseline = Baseline()
        self._reaching: dict[str, dict[int, list[str]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            if self._child:
                os._exit(1)
            self._failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None
        for item in session.items:
            _few_examples(item)
        self._run_once(session.items)
        if self._failed:
            raise pytest.UsageError("without any mutant fail: " + ", ".join(self._failed))
        self._baseline.modules = [name for name in sys.modules if not name.startswith(OURS)]
        self._send(self._baseline)
        functions = _functions()
        items = sorted(session.items, key=lambda item: self._baseline.seconds[item.nodeid])
        for mutant in self._mutants:
            reached = self._reached(mutant)
            chosen = [item for item in items if item.nodeid in reached]
            outcome = _in_child(functools.partial(self._run_child, mutant, chosen, functions), len(chosen))
            if IMPORTED in reached and not outcome.killed:
                outcome = Outcome(None, len(items), sure=False)
            self._send(outcome)
        return True

    def _run_once(self, items: Sequence[pytest.Item]) -> None:
        for item, following in zip(items, [*items[1:], None], strict=True):
            _forget_results()
            self._coverage.switch_context(item.nodeid)
            started = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._baseline.seconds[item.nodeid] = time.process_time() - started
        self._coverage.stop()
        data = self._coverage.get_data()
        self._reaching = {path: data.contexts_by_lineno(path) for path in data.measured_files()}

    def _reached(self, mutant: Mutant) -> set[str]:
        """The tests that reach a mutant, and IMPORTED if its line runs before any test does."""
        lines = self._reaching.get(str(mutant.path), {})
        first, last = mutant.lines
        return {test for line in range(first, last + 1) for test in lines.get(line, ())}

    def _run_child(
        self,
        mutant: Mutant,
        items: Sequence[pytest.Item],
        functions: dict[tuple[str, str, int], list[FunctionType]],
    ) -> None:
        _limit(self._baseline.seconds[item.nodeid] for item in items)
        self._child = True
        for code in _inner(_compiled(mutant)):
            if code.co_qualname == mutant.function:
                for function in functions.get(_key(code), ()):
                    function.__code__ = code
        _forget_results()
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def _in_child(run: Callable[[], None], tests: int) -> Outcome:
    """Run this in a child, which ends itself when a test fails; return how it ended."""
    if not tests:
        return Outcome(None, 0)
    child = os.fork()
    if child == 0:
        errors = os.dup(2)
        try:
            run()
        except MemoryError:
            os._exit(1)
        except BaseException as error:  # noqa: BLE001 -- the child ends here, whatever it was
            os.write(errors, f"{error!r}\n".encode())
            os._exit(9)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 9:
        raise RuntimeError("a mutant could not be tried: see above")
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return Outcome("time", tests)
    return Outcome("test" if status > 0 else "crash" if status else None, tests)


def _limit(seconds: Iterator[float]) -> None:
    """End this process when it computes ten times as long as its tests did, or takes too much memory."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    most = int(used + 20 + 10 * sum(seconds))
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)


def _few_examples(item: pytest.Item) -> None:
    """Let a property try few examples, the same ones each time."""
    function = getattr(item, "obj", None)
    asked = getattr(function, "_hypothesis_internal_use_settings", None)
    if asked is not None:
        fewer = hypothesis.settings(PROPERTIES, max_examples=min(asked.max_examples, EXAMPLES))
        getattr(function, "__func__", function)._hypothesis_internal_use_settings = fewer


def _forget_results() -> None:
    """Empty our caches of results: what one test computed is computed again for the next."""
    for cache in gc.get_objects():
        if isinstance(cache, functools._lru_cache_wrapper) and str(cache.__module__).startswith(OURS):
            cache.cache_clear()


def _compiled(mutant: Mutant) -> CodeType:
    return compile(mutant.source, str(mutant.path), "exec", dont_inherit=True)


def _functions() -> dict[tuple[str, str, int], list[FunctionType]]:
    """Every function of this process, by where its code was written."""
    found = defaultdict(list)
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType):
            found[_key(thing.__code__)].append(thing)
    return found


def _inner(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inner(constant)


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno

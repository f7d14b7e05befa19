"""Cancels one task of the agents at one of its waits: the n-th wait of a kind of task, for any n."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator


@dataclass(frozen=True, order=True)
class Wait:
    """The n-th wait of tasks that run a function, counted since the cutter was armed."""

    function: str
    number: int


@dataclass
class Cutter:
    """A task factory. `waits` are those met since it was armed; at `target` the task is cancelled.

    `thrown`: the wait itself raises CancelledError, as one for a closed channel's call does, and nobody asked
    the task to end.
    """

    target: Wait | None = None
    thrown: bool = False
    done: bool = False
    waits: Counter[str] = field(default_factory=Counter)

    def arm(self, target: Wait | None, *, thrown: bool = False) -> None:
        self.target, self.thrown, self.done = target, thrown, False
        self.waits.clear()

    def install(self) -> None:
        asyncio.get_running_loop().set_task_factory(self._make)

    def _make(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **more: Any
    ) -> asyncio.Task[Any]:
        function = place(work)
        if function is None:
            return asyncio.Task(work, loop=loop, **more)
        task = asyncio.Task(self._counted(function, work), loop=loop, **more)
        task.add_done_callback(lambda _: work.close())  # of a task that never began
        return task

    async def _counted(self, function: str, work: Coroutine[Any, Any, Any]) -> Any:
        return await _Driven(self, function, work)

    def meet(self, function: str) -> bool:
        """Count a wait; whether it is the one."""
        self.waits[function] += 1
        if self.done or self.target != Wait(function, self.waits[function]):
            return False
        self.done = True
        return True


class _Driven:
    """Runs a coroutine, and looks at each of its waits."""

    def __init__(self, cutter: Cutter, function: str, work: Coroutine[Any, Any, Any]) -> None:
        self._cutter = cutter
        self._function = function
        self._work = work

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        try:
            while True:
                try:
                    waited = self._work.send(None) if error is None else self._work.throw(error)
                except StopIteration as end:
                    return end.value
                error = None
                if self._cutter.meet(self._function) and self._cut(waited):
                    error = asyncio.CancelledError()
                    continue
                try:
                    yield waited
                except BaseException as raised:  # noqa: BLE001 -- passed on
                    error = raised
        finally:
            error = None  # a frame that keeps its own error is freed by the collector alone

    def _cut(self, waited: Any) -> bool:
        """Cancel the task; True where its wait is to raise instead."""
        if self._cutter.thrown:
            if waited is not None:
                waited._asyncio_future_blocking = False
            return True
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        return False


def place(work: Any) -> str | None:
    """Which function of the agent a coroutine runs; None for what isn't the agent's own."""
    name = getattr(work, "__qualname__", "")
    code = getattr(work, "cr_code", None)
    if code is not None and "/hawk_agent/" in code.co_filename:
        return str(name)
    return "rpc" if name.startswith("_handle_") and "loop" not in name else None


def alive() -> list[asyncio.Task[Any]]:
    """The agents' tasks that wait now."""
    return [task for task in asyncio.all_tasks() if "Cutter._counted" in repr(task.get_coro())]

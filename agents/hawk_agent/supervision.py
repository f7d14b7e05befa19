"""Work that must not be lost: it is restarted when it is cancelled or fails, or reports that it can't be.

A task of asyncio that is cancelled from elsewhere, or that meets an error nobody foresaw, ends in silence.
For work that others rely on that isn't good enough: a listener that stops listening, a transfer that never
ends. Such work is handed to a supervisor. It starts the work again, at once after a cancellation and with
growing rests after errors, until the work has returned, or for ever where it has no end.

The work must bear being begun again. What it has done already it knows by itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hawk_api.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Work = Callable[[], Coroutine[Any, Any, None]]

log = logging.getLogger(__name__)

RESTS: Final = Backoff(0.05, 5.0, jitter=0)
STEADY_SECONDS = 10.0
"""Work that has run for so long since it failed counts as sound again."""
FAILING_SECONDS = 15.0
"""Work that has failed again and again for so long is a reason to restart the process."""


class Duty:
    """One piece of supervised work. `done` is set when it has returned or was given up."""

    def __init__(self, name: str, work: Work, *, endless: bool) -> None:
        self.name = name
        self.work = work
        self.endless = endless
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.restarts = 0
        self.failures = 0
        self.failing_since: float | None = None
        self.began = 0.0
        self.problem = ""

    def cancel(self) -> None:
        """Give it up for good."""
        if not self.done.done():
            self.done.set_result(None)
        if self.timer is not None:
            self.timer.cancel()
        if self.task is not None:
            self.task.cancel()


class TaskSupervisor:
    """Holds work to its end. `restarted` is told the name of each work that is begun again."""

    def __init__(
        self,
        restarted: Callable[[str], object] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._restarted = restarted
        self._clock = clock
        self._duties: set[Duty] = set()
        self._closed = False

    def keep(self, name: str, work: Work) -> Duty:
        """Run work that has no end. If it returns, that is a failure like any other."""
        return self._take(Duty(name, work, endless=True))

    def finish(self, name: str, work: Work) -> Duty:
        """Run work until it has returned."""
        return self._take(Duty(name, work, endless=False))

    def problem(self) -> str:
        """The tasks that have failed for too long, for people; empty when all is well."""
        now = self._clock()
        for duty in self._duties:
            if duty.failing_since is None:
                continue
            if duty.task is not None and now - duty.began > STEADY_SECONDS:
                duty.failing_since, duty.failures = None, 0
            elif now - duty.failing_since > FAILING_SECONDS:
                return f"{duty.name} has failed for {now - duty.failing_since:.0f} s: {duty.problem}"
        return ""

    async def close(self) -> None:
        """Give up all that isn't done."""
        self._closed = True
        duties = tuple(self._duties)
        for duty in duties:
            duty.cancel()
        await asyncio.gather(*(duty.task for duty in duties if duty.task), return_exceptions=True)

    def __len__(self) -> int:
        return len(self._duties)

    def _take(self, duty: Duty) -> Duty:
        self._duties.add(duty)
        self._begin(duty)
        return duty

    def _begin(self, duty: Duty) -> None:
        duty.timer = None
        duty.began = self._clock()
        duty.task = asyncio.get_running_loop().create_task(duty.work(), name=duty.name)
        duty.task.add_done_callback(partial(self._ended, duty))

    def _ended(self, duty: Duty, task: asyncio.Task[None]) -> None:
        duty.task = None
        error = None if task.cancelled() else task.exception()
        if self._closed or duty.done.done() or not (task.cancelled() or error or duty.endless):
            self._duties.discard(duty)
            duty.cancel()
            return
        now = self._clock()
        if now - duty.began > STEADY_SECONDS:
            duty.failing_since, duty.failures = None, 0
        if task.cancelled():
            log.warning("%s was cancelled from elsewhere; it goes on", duty.name)
            rest = 0.0
        else:
            duty.problem = f"{type(error).__name__}: {error}" if error else "it ended by itself"
            log.error("%s failed and is begun again: %s", duty.name, duty.problem, exc_info=error)
            duty.failing_since = now if duty.failing_since is None else duty.failing_since
            duty.failures += 1
            rest = RESTS.rest(duty.failures)
        duty.restarts += 1
        self._restarted(duty.name)
        duty.timer = asyncio.get_running_loop().call_later(rest, self._begin, duty)


async def first_ended(*works: Coroutine[Any, Any, None]) -> None:
    """Run works side by side until one ends, however it does; the others are cancelled.

    Its error is raised. A work that was cancelled from elsewhere ends them all like one that returned.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        if not task.cancelled():
            task.result()


def being_cancelled() -> bool:
    """True if the current task was asked to end.

    A call of a channel that is closed underneath raises CancelledError, too, and then nobody asked for it.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0

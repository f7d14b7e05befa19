"""Two ends of a connected queue pair, over whatever libibverbs the devices come from."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_agent.transports.verbs import device, registration
from hawk_agent.transports.verbs.completion import CompletionQueue, finish_posting
from hawk_agent.transports.verbs.posting import LocalMemory, Posting, RemoteMemory
from hawk_agent.transports.verbs.queue_pair import QueuePair, Timeouts
from hawk_agent.transports.verbs.registration import AccessFlags

if TYPE_CHECKING:
    import numpy as np

    from hawk_agent.layouts import Nest

BOTH = AccessFlags.IBV_ACCESS_REMOTE_WRITE | AccessFlags.IBV_ACCESS_REMOTE_READ


@dataclass
class End:
    """One end: a device, a completion queue, a queue pair."""

    device: device.RdmaDevice
    completions: CompletionQueue
    queue: QueuePair

    @classmethod
    def make(cls, info: device.DeviceInfo, depth: int = 64, max_sge: int = 32, receives: int = 16) -> End:
        with ExitStack() as stack:
            opened = stack.enter_context(device.open_device(info))
            completions = stack.enter_context(CompletionQueue(opened, depth + receives))
            queue = QueuePair(opened, depth, max_sge, completions, receives=receives)
            stack.pop_all()
        return cls(opened, completions, queue)

    def register(
        self, memory: np.ndarray, access: AccessFlags = registration.DESTINATION
    ) -> registration.RegisteredMemory:
        return registration.register_memory(self.device, memory, memory.nbytes, access)

    def close(self) -> None:
        self.queue.close()
        self.completions.close()
        self.device.close()


@dataclass
class Pair:
    """Two ends; `a` posts to `b` in most tests."""

    a: End
    b: End
    timeouts: Timeouts

    @classmethod
    def make(
        cls,
        infos: list[device.DeviceInfo],
        *,
        depth: int = 64,
        max_sge: int = 32,
        receives: int = 16,
        timeouts: Timeouts | None = None,
    ) -> Pair:
        ends = [End.make(info, depth, max_sge, receives) for info in (infos[0], infos[-1])]
        made = cls(*ends, timeouts or Timeouts())
        try:
            made.connect()
        except BaseException:
            made.close()
            raise
        return made

    def connect(self) -> None:
        infos = self.a.queue.info, self.b.queue.info
        self.a.queue.connect(infos[1], BOTH, self.timeouts)
        self.b.queue.connect(infos[0], BOTH, self.timeouts)

    def recover(self) -> None:
        """Both back from an error, as after a failure of either."""
        for end in (self.a, self.b):
            end.queue.to_error()
        for end in (self.a, self.b):
            drain(end)
            end.queue.reset()
        self.connect()

    def close(self) -> None:
        self.a.close()
        self.b.close()


def drain(end: End, looks: int = 200) -> None:
    """Poll until nothing is under way."""
    for _ in range(looks):
        end.completions.poll()
        if not end.queue.outstanding:
            return
        end.completions.wait(0.05)


ACCESS = {
    "write": (registration.GATHERED, registration.DESTINATION),
    "read": (registration.STAGING, registration.PULLED),
}


def transfer(
    pair: Pair,
    nest: Nest,
    source: np.ndarray,
    destination: np.ndarray,
    *,
    blocks: tuple[object, object] = (None, None),
    direction: str = "write",
    immediate: int | None = None,
    seconds: float = 60,
) -> Posting:
    """Move a nest from one side's memory to the other's through a pair, registrations included."""
    ours, theirs = (source, destination) if direction == "write" else (destination, source)
    near, far = blocks if direction == "write" else blocks[::-1]
    with (
        pair.a.register(ours, ACCESS[direction][0]) as here,
        pair.b.register(theirs, ACCESS[direction][1]) as there,
    ):
        local = LocalMemory(here.nbytes, here.local_ranges, near)
        remote = RemoteMemory(there.nbytes, there.remote_ranges, far)
        posting = Posting(pair.a.queue, nest, local, remote, direction=direction, immediate=immediate)
        finish_posting(posting, seconds=seconds)
    return posting

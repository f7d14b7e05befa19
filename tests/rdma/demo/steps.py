"""This demo's promises, step by step; each raises DemoError at what isn't so."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.demo.exchange import Exchange
from tests.e2e.demo.report import DemoError, Report, Step
from tests.e2e.demo.scale import SCALES
from tests.support.waiting import until

from .stage import NODES, SCALE, Stage

READY_SECONDS = 300.0
POLL_SECONDS = 1.0  # each look has an agent write all its metrics

STEPS = [
    Step("wire", "two agents prove their RDMA path to each other"),
    Step("transfer", "prefill here, decode there: the same tokens as one process alone"),
    Step("restart", "the decode agent is killed, and is wired again when it comes back"),
    Step("controls", "a transfer that is wrong on purpose is caught, each kind of wrong"),
]
FAULTS = ("swap-heads", "drop-chunk")


@dataclass
class Demo:
    """One run: the stage, what it says, and what is broken on purpose (empty: nothing)."""

    stage: Stage
    report: Report
    broken: str = ""

    @property
    def exchange(self) -> Exchange:
        """The model processes as they are now."""
        return Exchange(self.stage.workers, SCALES[SCALE], self.report.say)

    def wire(self, step: Step) -> None:
        """Both agents start, their engines register memory, each verifies its link by a canary."""
        stage = self.stage
        for role in NODES:
            stage.start_agent(role, fault=self._fault(role))
        for role in ("decode", "prefill", "alone"):
            stage.start_worker(role)
        started = time.monotonic()
        self._until("both links verified", lambda: all(map(stage.verified, NODES)))
        step.detail = (
            f"{stage.transports} on {' and '.join(dict.fromkeys(stage.devices.values()))}, "
            f"verified {time.monotonic() - started:.1f} s after the workers started"
        )

    def transfer(self, step: Step) -> None:
        """One request through both model processes."""
        self.exchange.transfer(step)
        if step.facts["transport"] != self.stage.transports:
            raise DemoError(f"the transfer went by {step.facts['transport']}, not {self.stage.transports}")

    def restart(self, step: Step) -> None:
        """kill -9 of the decode agent: noticed, wired again under a new epoch, the other side untouched."""
        stage = self.stage
        prefill, decode = stage.agents["prefill"], stage.workers["decode"]
        stale, before = self.exchange.reserve("before"), decode.ask("epoch")
        killed = time.monotonic()
        stage.agents.pop("decode").kill()
        self._until("the prefill agent to notice", lambda: not stage.verified("prefill"))
        noticed = time.monotonic() - killed
        self.report.say(f"  noticed after {noticed:.1f} s")
        rewired = self._return(self._fault("decode"))
        after = decode.ask("epoch")
        if before == after:
            raise DemoError(f"the agent restarted and still has epoch {after}")
        if stage.agents["prefill"] is not prefill or prefill.poll() is not None:
            raise DemoError("the prefill agent was restarted")
        if self.broken == "stale-epoch":
            self.exchange.push(stale)
        self.exchange.refused(stale)
        step.facts.update(self.exchange.request("second", prompt_seed=2), noticed_seconds=noticed)
        step.detail = (
            f"noticed in {noticed:.1f} s, verified {rewired:.1f} s after its return; tokens equal again"
        )

    def controls(self, step: Step) -> None:
        """The decode agent comes back with a fault in its data path: the request fails by its digest."""
        for fault in FAULTS:
            self.stage.agents.pop("decode").kill()
            self._until("the prefill agent to notice", lambda: not self.stage.verified("prefill"))
            self._return(fault)
            try:
                self.exchange.request(fault, prompt_seed=3)
            except (RuntimeError, DemoError) as error:
                if "digest-mismatch" not in str(error):
                    raise
                self.report.say(f"  {fault} is caught: {error}")
            else:
                raise DemoError(f"{fault}: nothing noticed that the KV is wrong")
        step.detail = f"{' and '.join(FAULTS)} are caught by the digest"

    def _return(self, fault: str) -> float:
        """Start the decode agent again; returns the seconds until both links are verified."""
        self.stage.start_agent("decode", fault=fault)
        started = time.monotonic()
        self._until("both links verified again", lambda: all(map(self.stage.verified, NODES)))
        return time.monotonic() - started

    def _fault(self, role: str) -> str:
        return self.broken if role == "decode" and self.broken in {"swap-heads", "drop-chunk"} else ""

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        def probe() -> bool:
            self.stage.check()
            return holds()

        try:
            until(probe, what=what, timeout=READY_SECONDS, interval=POLL_SECONDS, ignore=(OSError,))
        except TimeoutError as error:
            for process in self.stage.agents.values():
                self.report.say(f"{process.name}:\n{process.tail()}")
            raise DemoError(str(error)) from error

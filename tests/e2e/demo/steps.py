"""The demo's promises, step by step: each drives the stage and raises DemoError at what isn't so."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.waiting import until

from .exchange import Exchange
from .exporter import Mix
from .report import DemoError, Report, Step
from .scale import SCALES
from .stage import NODES, SCALE, Stage

READY_SECONDS = 240.0
FOLLOW_SECONDS = 240.0
METRICS_SECONDS = 60.0
WINDOW_SECONDS = 6.0
HOLD_SECONDS = 4.0

STEPS = [
    Step("apply", "kubectl apply of a HawkPool: it goes Ready"),
    Step("transfer", "prefill here, decode there: the same tokens as one process alone"),
    Step("ratio", "the ratio follows the traffic, returns, and follows an objective"),
    Step("restart", "the decode agent is killed, and is wired again when it comes back"),
]

RETRIEVAL = Mix("retrieval", requests_per_second=20, prompt_tokens=3700, output_tokens=210)
AGENTS = Mix("agents", requests_per_second=20, prompt_tokens=1500, output_tokens=460)
MIXED = Mix("mixed", requests_per_second=20, prompt_tokens=3700, output_tokens=135)
THUMB_RULES = {"1:2", "1:4"}


@dataclass
class Demo:
    """One run: the stage it runs on, what it says, and what is broken on purpose (empty: nothing)."""

    stage: Stage
    report: Report
    broken: str = ""
    mixes: list[Mix] = field(default_factory=list)

    @property
    def exchange(self) -> Exchange:
        """The two model processes and the one alone, as they are now."""
        return Exchange(self.stage.workers, SCALES[SCALE], self.report.say)

    def apply(self, step: Step) -> None:
        """The pool goes Ready, with every condition that Ready rests on."""
        stage = self.stage
        stage.start_operator()
        stage.apply_pool()
        for role in ("decode", "prefill"):
            stage.start_agent(role, fault=self._fault(role))
            stage.start_worker(role)
        stage.start_worker("alone")
        started = time.monotonic()
        self._until("the pool to be Ready", lambda pool: condition(pool, "Ready")["status"] == "True")
        pool = stage.pool()
        step.facts["conditions"] = pool["status"]["conditions"]
        self.report.say("\n".join(stage.table()))
        self.report.say(
            "  The pods are kwok's and run no engine; MemoryRegistered, Wired and TransferVerified come from "
            "the two real agents, on " + " and ".join(NODES.values()) + "."
        )
        for kind in ("MemoryRegistered", "Wired", "TransferVerified"):
            self._require(pool, kind)
        step.detail = f"Ready {time.monotonic() - started:.1f} s after the agents started"

    def transfer(self, step: Step) -> None:
        """One request through both model processes."""
        self.exchange.transfer(step)

    def ratio(self, step: Step) -> None:
        """Traffic changes and the ratio with it; no ratio stands in the demo but the two rules of thumb."""
        seen = step.facts["ratios"] = []
        self._until(
            "metrics", lambda pool: condition(pool, "MetricsAvailable")["status"] == "True", METRICS_SECONDS
        )
        self._follow(seen, RETRIEVAL, lambda ratio: ratio == "1:2")
        self._follow(seen, AGENTS, lambda ratio: ratio == "1:4")
        mixed = self._follow(seen, MIXED, lambda ratio: ratio not in THUMB_RULES)
        self.stage.patch_pool({"objectives": {"itl": {"target": "4ms"}}})
        tight = self._follow(
            seen, MIXED, lambda ratio: ratio not in {mixed, *THUMB_RULES}, "under ITL P99 < 4 ms "
        )
        self.stage.patch_pool({"objectives": {"itl": {"target": "20ms"}}})
        self._follow(seen, RETRIEVAL, lambda ratio: ratio == "1:2")
        for mix in self.mixes:
            self._follow(seen, mix, lambda _: True)
        step.facts["events"] = self._events()
        step.detail = (
            f"1:2 → 1:4 → {mixed} → {tight} (ITL 4 ms) → 1:2, in {len(self.report.decisions)} decisions"
        )

    def restart(self, step: Step) -> None:
        """kill -9 of the decode agent: noticed, wired again under a new epoch, the other side untouched."""
        stage = self.stage
        prefill = stage.agents["prefill"]
        stale = self.exchange.reserve("before")
        before = self._epoch("decode")
        killed = time.monotonic()
        stage.agents.pop("decode").kill()
        self._until("Wired to be no longer True", lambda pool: condition(pool, "Wired")["status"] != "True")
        noticed = time.monotonic() - killed
        step.facts["noticed"] = condition(stage.pool(), "Wired")
        self.report.say(f"  after {noticed:.1f} s: {step.facts['noticed']['message']}")
        stage.start_agent("decode", fault=self._fault("decode"))
        started = time.monotonic()
        self._until("the pool to be Ready again", lambda pool: condition(pool, "Ready")["status"] == "True")
        rewired = time.monotonic() - started
        after = self._epoch("decode")
        if before == after:
            raise DemoError(f"the agent restarted and still has epoch {after}")
        if prefill.pid != stage.agents["prefill"].pid or prefill.poll() is not None:
            raise DemoError("the prefill agent was restarted")
        if self.broken == "stale-epoch":
            self.exchange.push(stale)
        self.exchange.refused(stale)
        step.facts.update(self.exchange.request("second", prompt_seed=2), noticed_seconds=noticed)
        step.detail = (
            f"noticed in {noticed:.1f} s, Ready {rewired:.1f} s after its return; tokens equal again"
        )

    def _follow(
        self, seen: list[dict[str, Any]], mix: Mix, wanted: Callable[[str], bool], why: str = ""
    ) -> str:
        """Play a mix until a decision about it gives a wanted ratio and the pool has it."""
        self.stage.play(mix)
        started = time.time()
        held: dict[str, float] = {}

        def follows(pool: dict[str, Any]) -> bool:
            status, now = pool["status"], time.time()
            if not all(group["desired"] == group["ready"] for group in status["groups"]):
                held.clear()
                return False
            # Until a window has passed, metrics speak of two mixes, and a ratio may be on its way.
            since = held.setdefault(status["ratio"], now)
            return now - started > WINDOW_SECONDS and wanted(status["ratio"]) and now - since > HOLD_SECONDS

        self._until(f"the ratio to follow {mix.name} traffic", follows, FOLLOW_SECONDS)
        pool = self.stage.pool()
        ratio, newest = pool["status"]["ratio"], pool["status"]["decisions"][0]
        seconds = time.time() - started
        seen.append({"traffic": mix.name, "why": why, "ratio": ratio, "seconds": seconds, "decision": newest})
        self.report.say(f"  {mix.name} {why}→ {ratio} after {seconds:.0f} s: {newest['message']}")
        return str(ratio)

    def _events(self) -> list[dict[str, str]]:
        found = self.stage.cluster.get("events")["items"]
        return [{"reason": e["reason"], "message": e["message"]} for e in found if e["reason"]]

    def _epoch(self, role: str) -> str:
        return str(self.stage.cluster.get("hawknode", NODES[role])["status"]["epoch"])

    def _fault(self, role: str) -> str:
        return self.broken if role == "decode" and self.broken in {"swap-heads", "drop-chunk"} else ""

    def _require(self, pool: dict[str, Any], kind: str) -> None:
        found = condition(pool, kind)
        if found["status"] != "True":
            raise DemoError(f"{kind} is {found['status']}: {found.get('message', '')}")

    def _until(
        self, what: str, holds: Callable[[dict[str, Any]], bool], timeout: float = READY_SECONDS
    ) -> None:
        def probe() -> bool:
            self.stage.check()
            pool = self.stage.pool()
            # A kubectl twice a second is for those who watch.
            self.report.watch(pool, self.stage.table() if self.report.live else [])
            return "status" in pool and bool(pool["status"].get("conditions")) and holds(pool)

        try:
            until(probe, what=what, timeout=timeout, interval=0.5, ignore=(KeyError, IndexError))
        except TimeoutError as error:
            self.report.say(self.stage.cluster.kubectl("get", "nodes,pods,hawknodes,events", "-o", "wide"))
            if self.stage.operator:
                self.report.say(self.stage.operator.tail())
            raise DemoError(f"{error}; {unmet(self.stage.pool())}") from error
        self.report.watch(self.stage.pool(), self.stage.table())


def condition(pool: dict[str, Any], kind: str) -> dict[str, Any]:
    """One condition of the pool; Unknown where it isn't there yet."""
    conditions = pool.get("status", {}).get("conditions", [])
    missing = {"type": kind, "status": "Unknown", "reason": "NotReported", "message": "not reported yet"}
    return next((c for c in conditions if c["type"] == kind), missing)


def unmet(pool: dict[str, Any]) -> str:
    """The conditions that aren't True, with their reasons."""
    conditions = pool.get("status", {}).get("conditions", [])
    rest = [f"{c['type']}={c['status']} ({c['reason']}: {c['message']})" for c in conditions]
    return "; ".join(line for line in rest if "=True" not in line) or "all conditions are True"

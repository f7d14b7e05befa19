"""From a Prometheus to a `Window`: never raises, ends within the source's time-out.

Blocking (call it in a thread). One round trip for the window, one for the last hour in bins, one more for
each custom query, and one more when the window holds too few scrapes and has to be widened.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hawk_operator.traffic import queries as promql
from hawk_operator.traffic.client import Prometheus, QueryError, Sample
from hawk_operator.traffic.source import DECODE, PREFILL, GroupTarget, Source, targets_of
from hawk_planner.traffic import signal_names
from hawk_planner.traffic.bins import Bin, dispersion
from hawk_planner.traffic.distribution import Distribution, from_buckets
from hawk_planner.traffic.signals import Signal, failed, missing, not_a_number, parse_sample, stale, value
from hawk_planner.traffic.window import SideTraffic, Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hawk_api.v1alpha1.scaling import TrafficSpec

_WIDEN = 4
_WIDEST = 600.0
_OLDEST_WINDOWS = 2.0
"""A newest sample older than this many windows is stale. Of the windows that were asked for: one that is
widened for slow scrapes holds two of them up to this far apart, and would call a stopped scraper alive."""


def collect_window(traffic: Source | TrafficSpec, groups: Sequence[GroupTarget], now: float) -> Window:
    """Read the traffic of the pods in `groups`; `now` (seconds since the epoch) stamps the window."""
    source = traffic if isinstance(traffic, Source) else Source.of(traffic)
    client = Prometheus(source.url, source.timeout)
    try:
        window, answers = source.window, _ask(client, source, groups, source.window)
        if _too_few_samples(answers) and window * _WIDEN <= _WIDEST:
            window *= _WIDEN
            answers = _ask(client, source, groups, window)
        custom = _custom(client, source)
        past = _history(client, source, groups, window / 2)
    except QueryError as error:
        return Window(
            now,
            source.window,
            error=str(error),
            answered=error.answered,
            round_trips=client.round_trips,
        )
    finally:
        client.close()
    return _SampleReader(source, groups, window, answers, custom).read(now, past, client.round_trips)


def _ask(
    client: Prometheus, source: Source, groups: Sequence[GroupTarget], window: float
) -> dict[str, list[Sample]]:
    query = promql.build_queries(source, groups, window)
    if not query:
        return {}
    answers: dict[str, list[Sample]] = {}
    for sample in client.query(query):
        answers.setdefault(sample.labels.get(promql.TAG, ""), []).append(sample)
    return answers


def _custom(client: Prometheus, source: Source) -> dict[str, list[Sample] | QueryError]:
    """Ask the user's own queries one by one, so that a wrong one spoils nothing but itself."""
    found: dict[str, list[Sample] | QueryError] = {}
    for signal, query in source.queries.items():
        try:
            found[signal] = client.query(query)
        except QueryError as error:
            found[signal] = error
    return found


def _history(
    client: Prometheus, source: Source, groups: Sequence[GroupTarget], width: float
) -> tuple[Bin, ...]:
    """The last hour in bins; none where the store can't tell, which costs foresight and nothing else."""
    query = promql.history_query(source, groups, width)
    if not query:
        return ()
    try:
        found = client.matrix(query)
    except QueryError:
        return ()
    read: dict[str, dict[float, float]] = {}
    for series in found:
        values = {when: parse_sample(text, "bin") for when, text in series.points}
        known = {when: max(0.0, number.get()) for when, number in values.items() if number.known}
        read[series.labels.get(promql.TAG, "")] = known
    requests, prompts, outputs = (
        read.get(name, {}) for name in (promql.REQUESTS, promql.PROMPTS, promql.OUTPUTS)
    )
    return tuple(
        Bin(count, prompts.get(when, 0.0), outputs.get(when, 0.0)) for when, count in sorted(requests.items())
    )


def _too_few_samples(answers: Mapping[str, Sequence[Sample]]) -> bool:
    """True if series exist (a gauge is looked up further back) but a rate has no two samples to rest on."""
    counts = [parse_sample(s.text, "samples").otherwise(0.0) for s in answers.get(f"{PREFILL}/samples", ())]
    return f"{PREFILL}/{signal_names.RUNNING}" in answers and max(counts, default=0.0) < 2


class _SampleReader:
    """Reads one set of answers; collects warnings on the way."""

    def __init__(
        self,
        source: Source,
        groups: Sequence[GroupTarget],
        window: float,
        answers: Mapping[str, Sequence[Sample]],
        custom: Mapping[str, list[Sample] | QueryError],
    ) -> None:
        self.source = source
        self.groups = groups
        self.window = window
        self.answers = answers
        self.custom = custom
        self.warnings: list[str] = []

    def read(self, now: float, past: tuple[Bin, ...], round_trips: int) -> Window:
        if self.window != self.source.window:
            self.warnings.append(
                f"window {self.source.window:g} s holds fewer than two scrapes; used {self.window:g} s"
            )
        prefill, decode = self._side(PREFILL), self._side(DECODE)
        return Window(
            time=now,
            seconds=self.window,
            prefill=prefill,
            decode=decode,
            burstiness=dispersion([one.requests for one in past]),
            burst_bin=self.window / 2,
            bins=past,
            link=self._link(),
            own=frozenset(self.custom),
            warnings=tuple(self.warnings),
            round_trips=round_trips,
        )

    def _side(self, side: str) -> SideTraffic:
        old = self._stale(side)
        pods = self._living(side)
        gauges = {signal: self._by_pod(side, signal) for signal in signal_names.GAUGES}
        by_pod: dict[str, dict[str, float]] = {}
        for signal, values in gauges.items():
            for pod, number in values.items():
                if pod:
                    by_pod.setdefault(pod, {})[signal] = number
        silent = 0 if pods is None or not by_pod else len(pods - by_pod.keys())
        if silent:
            self.warnings.append(f"{side}: {silent} of {len(pods or ())} pods give no metrics")
        return SideTraffic(
            arrivals=self._number(side, signal_names.ARRIVALS, old),
            prompt=self._histogram(side, signal_names.PROMPT, old),
            output=self._histogram(side, signal_names.OUTPUT, old),
            ttft=self._histogram(side, signal_names.TTFT, old),
            itl=self._histogram(side, signal_names.ITL, old),
            late=self._number(side, signal_names.LATE, old),
            prefill_time=self._histogram(side, signal_names.PREFILL_TIME, old),
            running=self._total(side, signal_names.RUNNING, gauges, old),
            waiting=self._total(side, signal_names.WAITING, gauges, old),
            waiting_growth=self._number(side, "waiting_growth", old, signed=True),
            kv_usage=self._usage(side, gauges[signal_names.KV_USAGE], old),
            living=None if pods is None else len(pods),
            silent=silent,
            by_pod=by_pod,
        )

    def _link(self) -> Signal[float]:
        found = [parse_sample(sample.text, "transfer rate") for sample in self.answers.get(promql.LINK, ())]
        known = [signal for signal in found if signal.known and signal.get() > 0]
        return known[0] if known else missing("the agents counted no transfers")

    def _living(self, side: str) -> set[str] | None:
        groups = targets_of(side, self.groups)
        if any(group.pods is None for group in groups):
            return None
        return {pod for group in groups for pod in group.pods or ()}

    def _stale(self, side: str) -> str:
        ages = [parse_sample(s.text, "age").otherwise(0.0) for s in self.answers.get(f"{side}/age", ())]
        if ages and min(ages) > _OLDEST_WINDOWS * self.source.window:
            return f"the newest sample is {min(ages):.0f} s old"
        return ""

    def _samples(self, side: str, signal: str, part: str = "") -> list[Sample] | Signal[float]:
        """The samples of a signal, or why there are none."""
        if signal in self.custom:
            found = self.custom[signal]
            if isinstance(found, QueryError):
                return failed(f"query {signal}: {found}")
            return found or missing(f"the query {signal!r} gave no series")
        found = list(self.answers.get(f"{side}/{signal}{part}", ()))
        return found or missing(self._tried(side, signal))

    def _tried(self, side: str, signal: str) -> str:
        names = self.source.names.get(signal, ())
        if self._living(side) == set():
            return f"no pod of a {side} group is alive"
        if not names:
            return f"{self.source.engine} has no metric for {signal}"
        return f"no series of {' or '.join(names)} in {self.window:g} s"

    def _number(self, side: str, signal: str, old: str, *, signed: bool = False) -> Signal[float]:
        found = self._samples(side, signal)
        if isinstance(found, Signal):
            return found
        if old and signal not in self.custom:
            return stale(f"{signal}: {old}")
        total = 0.0
        for sample in found:
            read = parse_sample(sample.text, signal)
            if not read.known:
                return read
            total += read.get()
        if total < 0 and not signed:
            return not_a_number(f"{signal}: {total:g} is negative")
        return value(total)

    def _histogram(self, side: str, signal: str, old: str) -> Signal[Distribution]:
        if signal not in self.custom and not self._asked(side, signal):
            return missing("not asked for")
        found = self._samples(side, signal, "/bucket")
        if isinstance(found, Signal):
            return found.without_value()
        if old and signal not in self.custom:
            return stale(f"{signal}: {old}")
        buckets: dict[float, float] = {}
        for sample in found:
            read = parse_sample(sample.text, signal)
            if not read.known:
                return read.without_value()
            edge = _edge(sample.labels.get("le"))
            if edge is None:  # a custom query for a plain number: every request is alike
                return value(Distribution(((read.get(), 1.0),), ((read.get(), read.get()),)))
            buckets[edge] = buckets.get(edge, 0.0) + read.get()
        made = from_buckets(buckets, self._mean(side, signal))
        return not_a_number(f"{signal}: nothing was counted in the window") if made is None else value(made)

    def _asked(self, side: str, signal: str) -> bool:
        return signal in promql.HISTOGRAMS[side]

    def _mean(self, side: str, signal: str) -> float | None:
        read = []
        for part in ("/sum", "/count"):
            samples = self.answers.get(f"{side}/{signal}{part}", ())
            read.append(sum(parse_sample(s.text, signal).otherwise(0.0) for s in samples))
        total, count = read
        return total / count if count > 0 and total > 0 else None

    def _by_pod(self, side: str, signal: str) -> dict[str, float]:
        found = self._samples(side, signal)
        if isinstance(found, Signal):
            return {}
        values: dict[str, float] = {}
        for sample in found:
            read = parse_sample(sample.text, signal)
            if read.known:
                values[sample.labels.get("pod", "")] = read.get()
        return values

    def _total(
        self, side: str, signal: str, gauges: Mapping[str, Mapping[str, float]], old: str
    ) -> Signal[float]:
        values = gauges[signal]
        if not values:
            return self._number(side, signal, old)
        return stale(f"{signal}: {old}") if old else value(math.fsum(values.values()))

    def _usage(self, side: str, values: Mapping[str, float], old: str) -> Signal[float]:
        if not values:
            return self._number(side, signal_names.KV_USAGE, old)
        if old:
            return stale(f"{signal_names.KV_USAGE}: {old}")
        fullest = max(values.values())
        if fullest > 1.0 + 1e-9:
            self.warnings.append(
                f"{side}: {signal_names.KV_USAGE} of {fullest:g} is above 1; read as a percentage"
            )
            fullest /= 100.0
        return value(fullest)


def _edge(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return None

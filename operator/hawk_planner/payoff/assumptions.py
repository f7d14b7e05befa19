"""Every figure that a plan takes for granted: its value, its range, and where it is from.

Nothing enters a plan that isn't in this list, so `--explain` can print all of it,
and every line says by which option it is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hawk_planner.perf.rates import ASSUMED, Efficiency

from . import checks, economics
from .scenario import Link, SteadyTraffic

__all__ = ["BOUNDS", "Assumption", "Given", "Inputs", "bounded", "gather", "option_of"]


@dataclass(frozen=True)
class Assumption:
    """One input with its provenance."""

    name: str
    value: float | str
    unit: str
    source: str
    low: float | None = None
    high: float | None = None
    option: str = ""
    """How to change it."""


@dataclass(frozen=True)
class Given:
    """Values of a user or a measurement; None leaves the default, which is listed.

    `source` says where the traffic figures are from.
    """

    requests_per_second: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    dispersion: float | None = None
    link_bytes_per_second: float | None = None
    rails: int | None = None
    prefill_mfu: float | None = None
    decode_mbu: float | None = None
    years: float | None = None
    usd_per_kwh: float | None = None
    power_usage_effectiveness: float | None = None
    port_usd: float | None = None
    port_watts: float | None = None
    chunk_overhead_seconds: float | None = None
    registration_seconds: float | None = None
    message_seconds: float | None = None
    role_changes_per_hour: float | None = None
    path_share: float | None = None
    most_sequences: int | None = None
    source: str = "given"


@dataclass(frozen=True)
class Default:
    """A default with its reason; `low` and `high` where the truth is a range."""

    value: float
    unit: str
    source: str
    low: float | None = None
    high: float | None = None


DEFAULTS: dict[str, Default] = {
    "requests_per_second": Default(1.0, "1/s", "default"),
    "prompt_tokens": Default(4096, "tokens", "default: no traffic is given or measured"),
    "output_tokens": Default(512, "tokens", "default: no traffic is given or measured"),
    "dispersion": Default(1.0, "", "default: Poisson arrivals"),
    "link_bytes_per_second": Default(50e9, "bytes/s", "default: a 400G RoCEv2 port a rail"),
    "prefill_mfu": Default(ASSUMED.prefill_mfu, "", "published for long prompts: 0.60 to 0.75", 0.5, 0.75),
    "decode_mbu": Default(ASSUMED.decode_mbu, "", "assumed: 0.55 to 0.85 is commonly reached", 0.55, 0.85),
    "years": Default(3.0, "years", "write-off of a purchase, as the sizing of the operator"),
    "usd_per_kwh": Default(0.10, "USD/kWh", "assumed industrial tariff"),
    "power_usage_effectiveness": Default(1.3, "", "assumed: cooling and conversion"),
    "port_usd": Default(1200.0, "USD", "published: a 400G RoCEv2 port"),
    "port_watts": Default(25.0, "W", "published: a 400G RoCEv2 port"),
    "chunk_overhead_seconds": Default(50e-6, "s", "assumed: posting and detecting one chunk"),
    "registration_seconds": Default(0.0, "s", "memory is registered once, at start"),
    "message_seconds": Default(5e-6, "s", "assumed latency of a small message"),
    "role_changes_per_hour": Default(1.0, "1/h", "assumed changes of role"),
    "most_sequences": Default(
        ASSUMED.most_sequences, "", "vLLM's default, where a template doesn't set --max-num-seqs"
    ),
}


@dataclass(frozen=True)
class Inputs:
    """The gathered inputs and the list they are explained by."""

    workload: SteadyTraffic
    link: Link
    efficiency: Efficiency
    tariff: economics.Tariff
    role_changes_per_hour: float
    assumptions: tuple[Assumption, ...]


BOUNDS: dict[str, tuple[float, float]] = {
    "requests_per_second": (1e-9, 1e6),
    "prompt_tokens": (1, 1e7),
    "output_tokens": (1, 1e7),
    "dispersion": (0, 1e6),
    "link_bytes_per_second": (125, 1.25e17),
    "prefill_mfu": (0.001, 1),
    "decode_mbu": (0.001, 1),
    "years": (0.001, 100),
    "usd_per_kwh": (0, 1e3),
    "power_usage_effectiveness": (1, 10),
    "port_usd": (0, 1e6),
    "port_watts": (0, 1e4),
    "chunk_overhead_seconds": (0, 60),
    "registration_seconds": (0, 3600),
    "message_seconds": (0, 60),
    "role_changes_per_hour": (0, 3600),
    "path_share": (1e-6, 1),
    "rails": (1, 1024),
    "most_sequences": (1, 1e6),
}
"""The range of each figure: wider than anything in use, narrow enough for every result to be a number."""
OPTIONS = {
    "link_bytes_per_second": "--link-gbps",
    **{
        name: "--" + name.replace("_", "-")
        for name in (
            "requests_per_second",
            "prompt_tokens",
            "output_tokens",
            "dispersion",
            "prefill_mfu",
            "decode_mbu",
            "rails",
        )
    },
}
"""Figures with an option of their own; the others are changed by --assume NAME=VALUE."""
PLAIN = Given()


def gather(given: Given, measured: Given = PLAIN, *, rails: int, chunk_layers: int | None) -> Inputs:
    """Return the inputs of a plan: what is given, else measured, else the default; all are listed.

    `rails` and `chunk_layers` are the pool's. Raises InputError that names the option of a wrong figure.
    """
    listed: list[Assumption] = []

    def take(name: str) -> float:
        default, option = DEFAULTS[name], option_of(name)
        for source in (given, measured):
            value: float | None = getattr(source, name)
            if value is not None:
                bounded(name, value)
                listed.append(Assumption(name, float(value), default.unit, source.source, option=option))
                return float(value)
        listed.append(
            Assumption(name, default.value, default.unit, default.source, default.low, default.high, option)
        )
        return default.value

    workload = SteadyTraffic(
        requests_per_second=take("requests_per_second"),
        prompt_tokens=int(take("prompt_tokens")),
        output_tokens=int(take("output_tokens")),
        dispersion=take("dispersion"),
    )
    link = Link(
        bytes_per_second=take("link_bytes_per_second"),
        rails=rails if given.rails is None else checks.whole("--rails", bounded("rails", given.rails)),
        chunk_layers=chunk_layers,
        overhead_seconds=take("chunk_overhead_seconds"),
        registration_seconds=take("registration_seconds"),
        port_usd=take("port_usd"),
        port_watts=take("port_watts"),
        message_seconds=take("message_seconds"),
    )
    efficiency = Efficiency(
        prefill_mfu=take("prefill_mfu"),
        decode_mbu=take("decode_mbu"),
        most_sequences=int(take("most_sequences")),
    )
    tariff = economics.Tariff(take("years"), take("usd_per_kwh"), take("power_usage_effectiveness"))
    changes = take("role_changes_per_hour")
    listed += _fixed(link, efficiency, "--rails" if given.rails else "spec.transfer")
    return Inputs(workload, link, efficiency, tariff, changes, tuple(listed))


def option_of(name: str) -> str:
    """Return how a figure is changed on the command line, the value left out."""
    return OPTIONS.get(name, f"--assume {name}=")


def bounded(name: str, value: float) -> float:
    """Return a figure that is within BOUNDS, else raise InputError with its option, in the option's unit."""
    scale = 8 / 1e9 if name == "link_bytes_per_second" else 1
    least, most = (scale * end for end in BOUNDS[name])
    checks.within(option_of(name).removesuffix("="), scale * value, least, most)
    return value


def _fixed(link: Link, efficiency: Efficiency, rails_from: str) -> list[Assumption]:
    chunk: Any = link.chunk_layers or "the length that exposes least"
    return [
        Assumption("rails", float(link.rails), "ports", rails_from, option="--rails"),
        Assumption("chunk_layers", chunk, "layers", "spec.transfer.chunkLayers"),
        Assumption("usable_memory", efficiency.usable_memory, "", "as the sizing of the operator"),
        Assumption("step_seconds", efficiency.step_seconds, "s", "as the sizing of the operator"),
        Assumption("wire_share", efficiency.wire, "", "of an interconnect's rate, in an all-reduce"),
        Assumption("exchange_seconds", efficiency.exchange_seconds, "s", "an all-reduce besides its bytes"),
        Assumption("power", "declared", "W", "a device draws its declared power as long as the pool is on"),
    ]

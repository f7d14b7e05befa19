"""The listed inputs of a plan that come from the pool itself: model, devices, batches, engine times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .assumptions import Assumption, option_of
from .times import slots

if TYPE_CHECKING:
    from hawk_api.models import Geometry
    from hawk_api.v1alpha1 import HawkPoolSpec
    from hawk_planner.perf.work import ModelWork

    from .scenario import Scenario

__all__ = ["batch_inputs", "device_inputs", "interconnect_inputs", "model_inputs", "time_inputs"]


def model_inputs(spec: HawkPoolSpec, geometry: Geometry, work: ModelWork) -> list[Assumption]:
    """Return what is derived from the model's geometry."""
    weights, dtype = spec.model.weights, spec.model.kv_dtype
    return [
        Assumption(
            "model", geometry.name, "", f"geometry: {geometry.layer_count} layers, {geometry.attention}"
        ),
        Assumption("parameters", float(geometry.weights.total), "", "derived from the geometry"),
        Assumption(
            "weight_bytes",
            work.weight_bytes,
            "bytes",
            f"derived, {weights or 'as published'}",
            option="spec.model.weights",
        ),
        Assumption(
            "kv_bytes_per_token",
            float(geometry.kv_bytes_per_token(dtype)),
            "bytes",
            f"derived, {dtype}",
            option="spec.model.kvDtype",
        ),
    ]


def device_inputs(scenario: Scenario) -> list[Assumption]:
    """Return the figures of the declared devices, each class once."""
    listed = []
    seen: set[str] = set()
    for part in (scenario.prefill, scenario.decode):
        device = part.replica.device
        source = f"AcceleratorClass {device.name}"
        listed.append(
            Assumption(
                f"{part.name}.devices_per_replica", float(part.replica.devices), "", f"group {part.name}"
            )
        )
        if device.name in seen:
            continue
        seen.add(device.name)
        for name, unit, field in (
            ("flops", "FLOP/s", "flops"),
            ("memory", "bytes", "memory"),
            ("bandwidth", "bytes/s", "bandwidth"),
            ("watts", "W", "power"),
            ("price_usd", "USD", "price"),
            ("price_per_hour_usd", "USD/h", "pricePerHour"),
            ("startup_seconds", "s", "startup"),
        ):
            value: float | None = getattr(device, name)
            shown: float | str = "unknown" if value is None else value
            listed.append(
                Assumption(
                    f"{device.name}.{name}", shown, unit, source, option=f"--set {device.name}.{field}="
                )
            )
    return listed


def batch_inputs(scenario: Scenario) -> list[Assumption]:
    """Return what bounds the batch of each group that decodes: its memory, and its engine."""
    listed = []
    for part in {one.name: one for one in (scenario.decode, scenario.prefill)}.values():
        replica = part.replica
        if part is not scenario.decode and not replica.device.decodes:
            continue
        if replica.device.memory is not None:
            room = replica.room(scenario.efficiency) - scenario.work.weight_bytes
            state = scenario.work.on(replica.devices).kv_bytes(scenario.workload.longest_context)
            listed.append(
                Assumption(
                    f"{part.name}.sequences_by_memory",
                    float(max(0, int(room / max(state, 1.0)))),
                    "",
                    f"derived: {scenario.workload.longest_context:,} tokens each, beside the weights",
                )
            )
        told = replica.most_sequences is not None
        listed.append(
            Assumption(
                f"{part.name}.sequences_by_engine",
                float(slots(scenario, replica)),
                "",
                f"template of group {part.name}" if told else "most_sequences, or the most measured together",
                option=option_of("most_sequences"),
            )
        )
    return listed


def interconnect_inputs(scenario: Scenario) -> list[Assumption]:
    """Return what the devices of a replica exchange their partial results over, one line a class."""
    listed: dict[str, Assumption] = {}
    for part in (scenario.prefill, scenario.decode):
        device, devices = part.replica.device, part.replica.devices
        known = device.interconnect
        source = f"AcceleratorClass {device.name}, one direction of one of {devices} devices"
        value: float | str = 0.0 if known is None else known.rate(devices)
        if known is None:
            value = "unknown"
            source = f"{scenario.efficiency.tensor:.0%} of the rates are left at each doubling of the devices"
        listed[device.name] = Assumption(f"{device.name}.interconnect", value, "bytes/s", source)
    return list(listed.values())


def time_inputs(scenario: Scenario) -> list[Assumption]:
    """Return where the engine's times are from: one line a class and phase."""
    listed: dict[str, Assumption] = {}
    for part in (scenario.prefill, scenario.decode):
        name, table = part.replica.device.name, part.replica.measured
        prefill = table is not None and bool(table.prefill)
        decode = table is not None and bool(table.steps)
        for phase, known in (("prefill", prefill), ("decode", decode)):
            source = "derived from FLOPs, bytes and what is reached of the peaks"
            value = "roofline"
            if table is not None and known:
                source = table.source
                span = table.prefill_span if phase == "prefill" else table.decode_span
                value = f"measured on {table.devices} device(s), {span}"
            listed[f"{name}.{phase}_time"] = Assumption(
                f"{name}.{phase}_time", value, "", source, option="--measured"
            )
    return list(listed.values())

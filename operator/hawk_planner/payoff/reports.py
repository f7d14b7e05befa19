"""The bare arithmetic as flat reports: inputs first, then figures, each key ending in its unit.

Times are in ms (us where they are tiny), rates in Gb/s, sizes in bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hawk_planner.perf.work import ModelWork

from . import checks, drafting, exchange
from .handoff import Handoff, link_load, price_handoff
from .pipeline import chunk_timeline

if TYPE_CHECKING:
    from hawk_api.models import Geometry

    from .inputs import AfdInputs, PdInputs, PipelineInputs, TdInputs

__all__ = [
    "report_afd",
    "report_pd",
    "report_pipeline",
    "report_td",
]

Report = dict[str, Any]
ELEMENT_BYTES = 2.0
"""Of activations, 16 bits."""


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _gbps(bytes_per_second: float | None) -> float | None:
    return None if bytes_per_second is None else bytes_per_second * 8 / 1e9


def report_pd(geometry: Geometry, inputs: PdInputs) -> Report:
    """Return the figures of a prefill/decode split. `delta_ms` is split minus local: above 0 is later.

    `break_even_saving_ms_per_token` is what a step must save with nothing hidden,
    `break_even_saving_at_hidden_ms_per_token` the same at the given share.
    """
    link = checks.gbps("link bandwidth", inputs.link_gbps)
    tokens = checks.whole("prompt tokens", inputs.prompt_tokens)
    state = geometry.kv_bytes(tokens, inputs.kv_dtype)
    times = price_handoff(
        Handoff(
            state_bytes=state,
            output_tokens=inputs.output_tokens,
            link_bytes_per_second=link,
            saving_seconds_per_token=inputs.decode_saving_ms_per_token / 1e3,
            hidden=inputs.hidden,
            emitter=inputs.first_token,
        )
    )
    report: Report = {
        "model": geometry.name,
        **vars(inputs),
        "kv_bytes_per_token": geometry.kv_bytes_per_token(inputs.kv_dtype),
        "kv_bytes": state,
        "transfer_ms": _ms(times.transfer_seconds),
        "exposed_ms": _ms(times.exposed_seconds),
        "decode_steps": times.steps,
        "saved_ms": _ms(times.saved_seconds),
        "delta_ms": _ms(times.delta_seconds),
        "verdict": _word(times.delta_seconds),
        "break_even_saving_ms_per_token": _ms(times.break_even_saving_seconds_per_token),
        "break_even_saving_at_hidden_ms_per_token": _ms(times.break_even_saving_exposed_seconds_per_token),
        "break_even_hidden": times.break_even_hidden,
        "break_even_link_gbps": _gbps(times.break_even_link_bytes_per_second),
        "break_even_output_tokens": times.break_even_output_tokens,
    }
    if inputs.requests_per_second is not None:
        load = link_load(state, inputs.requests_per_second, link)
        report |= {
            "link_demand_bytes_per_second": load.bytes_per_second,
            "link_demand_gbps": _gbps(load.bytes_per_second),
            "link_utilisation": load.utilisation,
        }
    return report


def _word(delta: float) -> str:
    return "later" if delta > 0 else "sooner" if delta < 0 else "tie"


def report_afd(geometry: Geometry, inputs: AfdInputs) -> Report:
    """Return the figures of an attention/FFN split for one decode step, and what the freed memory holds."""
    work = ModelWork.of(geometry, inputs.kv_dtype)
    experts, chosen = _experts(geometry)
    destinations, probability = 1.0, None
    if inputs.ffn_ranks is not None:
        probability = exchange.send_probability(experts, chosen, inputs.ffn_ranks)
        destinations = exchange.destinations_per_token(experts, chosen, inputs.ffn_ranks)
    times = exchange.price_exchange(
        exchange.Exchange(
            hidden_size=geometry.hidden,
            layers=geometry.layer_count,
            batch=inputs.batch,
            link_bytes_per_second=checks.gbps("link bandwidth", inputs.link_gbps),
            element_bytes=ELEMENT_BYTES,
            ffn_saving_seconds=inputs.ffn_saving_ms / 1e3,
            hidden=inputs.hidden,
            destinations=destinations,
        )
    )
    request = work.kv_bytes(checks.whole("context tokens", inputs.context_tokens))
    report: Report = {
        "model": geometry.name,
        **vars(inputs),
        "transfer_bytes": times.transfer_bytes,
        "transfer_bytes_per_token": times.bytes_per_token,
        "transfer_ms": _ms(times.transfer_seconds),
        "exposed_ms": _ms(times.exposed_seconds),
        "delta_ms": _ms(times.delta_seconds),
        "verdict": _word(times.delta_seconds),
        "break_even_hidden": times.break_even_hidden,
        "break_even_link_gbps": _gbps(times.break_even_link_bytes_per_second),
        "ffn_parameters": geometry.weights.ffn_resident,
        "ffn_flops_per_token": geometry.ffn_flops_per_token(),
        "other_bytes": work.weight_bytes - work.ffn_bytes,
        "freed_bytes": work.ffn_bytes,
        "request_kv_bytes": request,
        "batch_kv_bytes": request * inputs.batch,
        "freed_requests": work.ffn_bytes / request,
        "experts": experts,
        "tokens_per_expert": exchange.tokens_per_expert(inputs.batch, experts, chosen),
        "send_probability": probability,
        "destinations_per_token": destinations,
    }
    return report | _capacity(geometry, inputs, request, work.ffn_bytes)


def _experts(geometry: Geometry) -> tuple[int, int]:
    """Return experts and experts a token of the first layer that has some; a dense FFN is one expert."""
    for layer in geometry.layers:
        if layer.ffn.experts:
            return layer.ffn.experts, layer.ffn.per_token
    return 1, 1


def _capacity(geometry: Geometry, inputs: AfdInputs, request: float, freed: float) -> Report:
    asked = inputs.waiting_requests, inputs.tokens_per_expert_limit
    if asked == (None, None):
        return {}
    for name, value in zip(("waiting requests", "tokens per expert limit"), asked, strict=True):
        if value is None:
            raise checks.MissingInputError(name, "isn't given", "give both to judge the freed capacity")
    experts, chosen = _experts(geometry)
    capacity = exchange.judge_capacity(
        freed_bytes=freed,
        request_bytes=request,
        batch=inputs.batch,
        waiting_requests=inputs.waiting_requests or 0.0,
        experts=experts,
        experts_per_token=chosen,
        tokens_per_expert_limit=inputs.tokens_per_expert_limit or 0.0,
    )
    return {
        "capacity_case": str(capacity.case),
        "admitted_requests": capacity.admitted_requests,
        "tokens_per_expert_after": capacity.tokens_per_expert_after,
        "capacity_message": capacity.message,
    }


def report_td(geometry: Geometry, inputs: TdInputs) -> Report:
    """Return the messages of a draft/verify round, and the round where its times are given."""
    link = checks.gbps("link bandwidth", inputs.link_gbps)
    sent = drafting.message_bytes(inputs.draft_tokens, geometry.hidden, inputs.feature_vectors, ELEMENT_BYTES)
    total = sent.proposal_bytes + sent.response_bytes + sent.feature_bytes
    report: Report = {
        "model": geometry.name,
        **vars(inputs),
        "proposal_bytes": sent.proposal_bytes,
        "response_bytes": sent.response_bytes,
        "feature_bytes": int(sent.feature_bytes),
        "transfer_bytes": int(total),
        "transfer_us": total / link * 1e6,
        "feature_transfer_us": sent.feature_bytes / link * 1e6,
    }
    round_ = _round(inputs, total / link)
    if round_ is None:
        return report
    times = drafting.price_round(round_)
    best = drafting.best_draft_length(
        replace(round_, verify_seconds=(inputs.verify_ms or 0.0) / 1e3),
        longest=inputs.longest,
        verify_seconds_per_draft=inputs.verify_ms_per_draft / 1e3,
    )
    return report | {
        "tokens_per_round": times.tokens,
        "round_ms": _ms(times.round_seconds),
        "ms_per_token": _ms(times.seconds_per_token),
        "speedup": times.speedup,
        "break_even_acceptance": times.break_even_acceptance,
        "best_draft_tokens": best,
    }


def _round(inputs: TdInputs, message_seconds: float) -> drafting.Round | None:
    needed = {
        "acceptance": _acceptance(inputs),
        "draft time per token": inputs.draft_ms_per_token,
        "verification time": inputs.verify_ms,
        "target time per token": inputs.target_ms_per_token,
    }
    known = {name: value for name, value in needed.items() if value is not None}
    if not known:
        return None
    for name in needed:
        if name not in known:
            raise checks.MissingInputError(name, "isn't given", "a round needs all four of its figures")
    return drafting.Round(
        draft_tokens=inputs.draft_tokens,
        acceptance=known["acceptance"],
        draft_seconds_per_token=known["draft time per token"] / 1e3,
        verify_seconds=(known["verification time"] + inputs.draft_tokens * inputs.verify_ms_per_draft) / 1e3,
        target_seconds_per_token=known["target time per token"] / 1e3,
        message_seconds=message_seconds,
        synchronisation_seconds=inputs.synchronisation_ms / 1e3,
        draft_overlap=inputs.draft_overlap,
    )


def _acceptance(inputs: TdInputs) -> float | None:
    if inputs.accepted_tokens is None:
        return inputs.acceptance
    if inputs.acceptance is not None:
        raise checks.InputError("accepted tokens", "is given beside an acceptance", "give one of the two")
    return drafting.acceptance_from_mean(inputs.accepted_tokens, inputs.draft_tokens)


def report_pipeline(geometry: Geometry, inputs: PipelineInputs) -> Report:
    """Return the timeline of a prefill's chunks. `transfer_ms` is of the whole cache over all rails."""
    layers = geometry.kv_bytes_by_layer(checks.whole("tokens", inputs.tokens), inputs.kv_dtype)
    if inputs.compute_ms_per_chunk is not None:
        compute_seconds = inputs.compute_ms_per_chunk / 1e3
    else:
        flops = checks.positive("prefill tflops", inputs.prefill_tflops) * 1e12
        share = checks.whole("chunk layers", inputs.chunk_layers) / geometry.layer_count
        compute_seconds = geometry.prefill_flops(inputs.tokens) * share / flops
    timeline = chunk_timeline(
        layers,
        chunk_layers=inputs.chunk_layers,
        compute_seconds_per_chunk=compute_seconds,
        rail_bytes_per_second=checks.gbps("link bandwidth", inputs.link_gbps),
        rails=inputs.rails,
        overhead_seconds_per_chunk=inputs.overhead_us_per_chunk / 1e6,
    )
    first = timeline.chunks[0]
    return {
        "model": geometry.name,
        **vars(inputs),
        "compute_ms_per_chunk": _ms(compute_seconds),
        "kv_bytes": sum(layers),
        "chunks": len(timeline.chunks),
        "chunk_bytes": first.nbytes,
        "transfer_ms_per_chunk": _ms(first.transfer_end - first.transfer_start),
        "transfer_ms": _ms(timeline.transfer_seconds),
        "compute_ms": _ms(timeline.compute_seconds),
        "exposed_ms": _ms(timeline.exposed_seconds),
        "hidden": timeline.hidden,
        "resident_share": timeline.resident_share,
        "sent_share": timeline.sent_share,
        "timeline": [
            {
                "first_layer": chunk.first_layer,
                "layers": chunk.layers,
                "chunk_bytes": chunk.nbytes,
                "compute_start_ms": _ms(chunk.compute_start),
                "compute_end_ms": _ms(chunk.compute_end),
                "transfer_start_ms": _ms(chunk.transfer_start),
                "transfer_end_ms": _ms(chunk.transfer_end),
            }
            for chunk in timeline.chunks
        ],
    }

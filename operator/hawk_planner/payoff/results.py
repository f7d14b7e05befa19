"""A plan as flat data: what scripts read, and what tables and pages are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .candidate import Candidate, Feasibility
from .ties import ties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .assumptions import Assumption
    from .plan import Band, CapacityPlan
    from .ties import Tie
    from .turning import Turn

__all__ = ["candidate_data", "plan_data", "tie_text", "turn_data"]


def plan_data(answer: CapacityPlan, turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the whole plan; every key ends in its unit."""
    meets = [one for one in answer.ranking if one.standing is Feasibility.MEETS]
    outcome = answer.outcome
    return {
        "verdict": str(outcome.verdict),
        "reason": outcome.reason,
        "best": meets[0].title if meets else None,
        "runner_up": meets[1].title if len(meets) > 1 else None,
        "best_split": outcome.best_split.title if outcome.best_split else None,
        "best_whole": outcome.best_whole.title if outcome.best_whole else None,
        "candidates": [
            candidate_data(one, band) | {"ties": _tie(tie)}
            for one, band, tie in zip(
                answer.ranking, answer.bands, ties(answer.ranking, answer.scenario), strict=True
            )
        ],
        "turning_points": [turn_data(turn) for turn in turns],
        "assumptions": [_assumption(one) for one in answer.assumptions],
    }


def _tie(tie: Tie | None) -> dict[str, Any] | None:
    if tie is None:
        return None
    return {
        "with": tie.rival,
        "accelerator_class": tie.device,
        "now_usd_per_hour": tie.now_usd_per_hour,
        "at_usd_per_hour": tie.at_usd_per_hour,
    }


def tie_text(tie: dict[str, Any] | None) -> str:
    """Return a tie in a few words, empty where there is none."""
    return "" if tie is None else f"{tie['accelerator_class']} at {tie['at_usd_per_hour']:,.3f}"


def candidate_data(one: Candidate, band: Band | None) -> dict[str, Any]:
    """Return one way of serving."""
    return {
        "kind": str(one.kind),
        "title": one.title,
        "standing": str(one.standing),
        "problem": one.problem or None,
        "ttft_ms": _scaled(one.ttft_seconds, 1e3),
        "itl_ms": _scaled(one.itl_seconds, 1e3),
        "output_tokens_per_second": one.tokens_per_second,
        "most_output_tokens_per_second": one.most_tokens_per_second,
        "usd_per_hour": one.usd_per_hour,
        "usd_per_million_tokens": one.usd_per_million_tokens,
        "usd_per_million_tokens_low": band.low if band else None,
        "usd_per_million_tokens_high": band.high if band else None,
        "joules_per_token": one.joules_per_token,
        "watts": one.watts,
        "link_utilisation": one.link_utilisation,
        "bottleneck": one.bottleneck or None,
        "devices": one.devices,
        "pools": [
            {
                "role": pool.role,
                "accelerator_class": pool.device,
                "replicas": pool.replicas,
                "devices_per_replica": pool.devices_per_replica,
                "utilisation": pool.utilisation,
            }
            for pool in one.pools
        ],
        "parts": {_key(name): _part(name, value) for name, value in one.parts.items()},
    }


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _key(name: str) -> str:
    return name.removesuffix("_seconds") + "_ms" if name.endswith("_seconds") else name


def _part(name: str, value: float) -> float:
    return value * 1e3 if name.endswith("_seconds") else value


def turn_data(turn: Turn) -> dict[str, Any]:
    """Return one turning point; links are in Gb/s."""
    scale, unit = (8 / 1e9, "Gb/s") if turn.unit == "bytes/s" else (1.0, turn.unit)
    return {
        "input": turn.name,
        "unit": unit,
        "present": turn.present * scale,
        "turns_below": _scaled(turn.below, scale),
        "turns_above": _scaled(turn.above, scale),
    }


def _assumption(one: Assumption) -> dict[str, Any]:
    return {
        "name": one.name,
        "value": one.value,
        "low": one.low,
        "high": one.high,
        "unit": one.unit,
        "source": one.source,
        "option": one.option or None,
    }

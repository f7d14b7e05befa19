"""The pool that `hawk simulate` takes when none is given."""

from __future__ import annotations

from dataclasses import replace

import yaml

from hawk_api.catalogue import shipped
from hawk_api.models.resolve import resolve_geometry
from hawk_api.v1alpha1 import HawkPool
from hawk_planner.sizing import Problem

STRETCH = 2.0
"""A prompt may take twice its own prefill, where that is longer than the objective."""

SAMPLE_POOL = """\
apiVersion: hawkpool.dev/v1alpha1
kind: HawkPool
metadata: {name: sample, namespace: default}
spec:
  model: {preset: mistral-7b-instruct-v0.2}
  groups:
  - name: prefill
    role: Prefill
    acceleratorClass: h100-sxm5
    replicas: {min: 1, max: 64}
    template: {spec: {containers: [{name: engine, image: "example.com/engine:1"}]}}
  - name: decode
    role: Decode
    acceleratorClass: decode-npu
    replicas: {min: 1, max: 64}
    template: {spec: {containers: [{name: engine, image: "example.com/engine:1"}]}}
  objectives:
    ttft: {percentile: 99, target: 250ms}
    itl: {percentile: 99, target: 30ms}
  traffic:
    prometheus: {url: "http://prometheus.monitoring:9090"}
"""


def sample_problem() -> Problem:
    """The sample pool as the decision sees it, with STRETCH."""
    pool = HawkPool.model_validate(yaml.safe_load(SAMPLE_POOL))
    problem = Problem.of(pool, shipped(), resolve_geometry(pool.spec.model))
    assert problem.ttft is not None
    return replace(problem, ttft=replace(problem.ttft, stretch=STRETCH))

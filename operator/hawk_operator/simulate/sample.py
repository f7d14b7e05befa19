"""The pool that `hawk simulate` takes when none is given."""

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

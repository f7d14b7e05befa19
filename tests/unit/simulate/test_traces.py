"""Loading traces by their content, and refusing what isn't one."""

from __future__ import annotations

import pytest

from hawk_planner.simulate.generate import AGENT, RAG, SCENARIOS, Stream, scenario, shift, steady
from hawk_planner.simulate.traces import TraceError, TraceRequest, load_trace

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
"""
MOONCAKE = """{"timestamp": 3000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 0, "input_length": 7322, "output_length": 490, "hash_ids": [0]}
"""
BURST = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45.5,GPT-4,1087,0,1087,API log
"""
SESSIONS = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,a1,2.5,ChatGPT,472,18,490,Conversation log
"""


def read(tmp_path, text: str):
    path = tmp_path / "trace"
    path.write_text(text)
    return load_trace(path).requests


def test_azure_has_seven_decimals(tmp_path):
    first, second = read(tmp_path, AZURE)

    assert (first.arrival, first.prompt, first.output) == (0.0, 4808, 10)
    assert second.arrival == pytest.approx(0.052, abs=1e-6)


def test_mooncake_is_in_milliseconds_and_is_sorted(tmp_path):
    assert read(tmp_path, MOONCAKE) == (TraceRequest(0.0, 7322, 490), TraceRequest(3.0, 6758, 500))


def test_burstgpt_with_and_without_sessions_and_failures_without_output(tmp_path):
    assert read(tmp_path, BURST) == (TraceRequest(0.0, 472, 18), TraceRequest(40.5, 1087, 0))
    assert read(tmp_path, SESSIONS) == (TraceRequest(0.0, 472, 18),)


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path, newline):
    path = tmp_path / "trace"
    path.write_bytes(("\ufeff" + AZURE.replace("\n", newline)).encode())

    assert len(load_trace(path).requests) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("a,b,c\n1,2,3\n", ":1: unknown columns 'a, b, c'"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no request in it"),
        (AZURE + "yesterday,1,1\n", ":4: TIMESTAMP 'yesterday'"),
        (AZURE + "2023-11-16 18:17:04.0319600,-3,8\n", ":4: ContextTokens '-3'"),
        (AZURE + "2023-11-16 18:17:04.0319600,3\n", ":4: 2 columns where 3 are expected"),
        (MOONCAKE + "{\n", ":3: not a JSON object"),
        (MOONCAKE + '{"timestamp": 1, "input_length": 2}\n', ":3: output_length is missing"),
        (MOONCAKE + '{"timestamp": 1, "input_length": 2.5, "output_length": 1}\n', ":3: input_length 2.5"),
        (MOONCAKE + '{"timestamp": NaN, "input_length": 2, "output_length": 1}\n', ":3: timestamp nan"),
        (BURST + "6,GPT-4,x,1,1,API log\n", ":4: Request tokens 'x'"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, text, said):
    with pytest.raises(TraceError, match="trace") as caught:
        read(tmp_path, text)

    assert said in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path):
    with pytest.raises(TraceError, match="nowhere"):
        load_trace(tmp_path / "nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x01" * 10)
    with pytest.raises(TraceError, match="not a text file"):
        load_trace(tmp_path / "binary")


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_scenario_is_the_same_for_the_same_seed_only(name):
    again = scenario(name, 1, 120.0)

    assert scenario(name, 1, 120.0) == again
    assert scenario(name, 2, 120.0).requests != again.requests
    assert again.requests
    assert all(0 <= r.arrival < 120 and r.prompt > 0 and r.output > 0 for r in again.requests)


def test_rates_and_lengths_are_those_asked_for():
    trace = Stream(steady(RAG, 5.0), 3).trace("t", 2000.0)

    assert len(trace.requests) == pytest.approx(10_000, rel=0.05)
    assert sum(r.prompt for r in trace.requests) / len(trace.requests) == pytest.approx(12_000, rel=0.03)
    assert sum(r.output for r in trace.requests) / len(trace.requests) == pytest.approx(300, rel=0.05)


def test_a_shift_ends_with_the_other_kind():
    trace = Stream(shift(RAG, AGENT, (4.0, 20.0), 300.0, 100.0), 3).trace("t", 900.0)
    early, late = trace.part(0, 300), trace.part(500, 900)

    assert min(r.prompt for r in early.requests) > 2000
    assert sum(r.prompt for r in late.requests) / len(late.requests) == pytest.approx(1500, rel=0.1)
    assert late.requests[0].arrival < 5

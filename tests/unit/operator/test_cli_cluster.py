"""Commands that look at a cluster: exit status 1 is the check's alone, what keeps it from being made is 2."""

from __future__ import annotations

from contextlib import closing
from socket import create_server

import pytest
import yaml

from hawk_cli.app import main

CONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


def config(**changed: object) -> bytes:
    return yaml.safe_dump({**CONFIG, **changed}).encode()


def cluster(**changed: object) -> list[object]:
    return [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **changed}}]


USELESS = {
    "no file": None,
    "binary": b"\x7fELF\xb1\x00\xff",
    "control characters": b"a: \x01",
    "no YAML": b"clusters: [",
    "empty": b"",
    "a text": b"just text",
    "a list": b"[1, 2]",
    "no clusters": b"contexts: []",
    "clusters of another form": config(clusters="c"),
    "no server": config(clusters=[{"name": "c"}]),
    "a server of another form": config(clusters=cluster(server=["x"])),
    "a port that is none": config(clusters=cluster(server="http://a:b:c")),
    "unknown cluster": config(clusters=[]),
    "unknown user": config(users=[]),
    "unknown context": config(**{"current-context": "y"}),
    "no context": config(**{"current-context": None}),
    "no user": config(contexts=[{"name": "x", "context": {"cluster": "c"}}]),
    "no authority's file": config(
        clusters=cluster(**{"server": "https://127.0.0.1:1", "certificate-authority": "/nowhere/ca.crt"})
    ),
    "an authority that is no certificate": config(
        clusters=cluster(**{"server": "https://127.0.0.1:1", "certificate-authority": __file__})
    ),
}


@pytest.mark.parametrize("words", ["status", "status llama --check -o json", "plan --live llama"])
@pytest.mark.parametrize("what", USELESS)
def test_a_useless_kubeconfig_is_one_line_and_status_2(what, words, tmp_path, monkeypatch, capsys):
    path, text = tmp_path / "config", USELESS[what]
    if text is not None:
        path.write_bytes(text)
    monkeypatch.setenv("KUBECONFIG", str(path))

    with pytest.raises(SystemExit) as ended:
        main(words.split())

    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith("error: kubeconfig: ")
    assert err.count("kubeconfig: ") == err.count("\n") == 1
    assert err.endswith("; set KUBECONFIG to one that works with kubectl\n")


@pytest.mark.parametrize("words", ["status", "status llama --check", "plan --live llama"])
def test_a_cluster_that_does_not_answer_is_status_2(words, tmp_path, monkeypatch, capsys):
    with closing(create_server(("127.0.0.1", 0))) as taken:
        address = taken.getsockname()
    path = tmp_path / "config"
    path.write_bytes(config(clusters=cluster(server=f"http://127.0.0.1:{address[1]}")))
    monkeypatch.setenv("KUBECONFIG", str(path))

    with pytest.raises(SystemExit) as ended:
        main(words.split())

    assert (ended.value.code, capsys.readouterr().out) == (2, "")


@pytest.mark.parametrize(("ready", "code"), [("True", 0), ("False", 1), ("Unknown", 1), (None, 1)])
def test_a_pool_that_is_not_ready_fails_the_check_alone(ready, code, monkeypatch):
    conditions = [] if ready is None else [{"type": "Ready", "status": ready, "reason": "AsExpected"}]
    body = {"metadata": {"name": "p", "namespace": "n"}, "status": {"conditions": conditions}}
    monkeypatch.setattr("hawk_cli.commands.status._read", lambda *_, **__: [body])

    for words, expected in ((["status"], 0), (["status", "--check"], code)):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == expected

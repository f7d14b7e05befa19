"""The command line: what scripts rely on."""

import io
import json
import os
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import typer
import yaml

from hawk_cli.app import COMMANDS, CommandEntry, build, main
from hawk_cli.support.examples import EXAMPLES

from .pools import group, manifest


@dataclass
class Done:
    """A process's exit status and output."""

    returncode: int
    stdout: str
    stderr: str


def hawk(*arguments: str, stdin: str = "") -> Done:
    """Run the entry point in this process, as a process would (importing it anew takes a second)."""
    out, err = io.StringIO(), io.StringIO()
    source = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "stdin", source),
        pytest.raises(SystemExit) as ended,
    ):
        main(arguments)
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def test_kv_of_a_70b_llama() -> None:
    done = hawk("kv", "--model", "llama-3.3-70b", "--tokens", "32768", "--output", "json")
    answer = json.loads(done.stdout)

    assert (done.returncode, done.stderr) == (0, "")
    assert answer["kv_bytes"] == 10_737_418_240
    assert answer["kv_bytes_per_token"] == 327_680
    assert answer["transfer_ms"] == pytest.approx(214.748, abs=1e-3)
    assert json.loads(hawk("kv", "--model", "llama-3.3-70b", "-o", "json", "--link-gbps", "800").stdout)[
        "transfer_ms"
    ] == pytest.approx(107.374, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["kv"], "error: --model: give exactly one of --model and --config"),
        (
            ["kv", "--model", "llama3.3-70b"],
            "error: --model: unknown model 'llama3.3-70b'; did you mean llama-3.3-70b",
        ),
        (["kv", "--model", "phi-4", "--tokens", "-1"], "error: --tokens: -1 is not a number of tokens"),
        (["kv", "--model", "phi-4", "--link-gbps", "0"], "error: --link-gbps: 0.0 is not a link rate"),
        (["kv", "--model", "phi-4", "--link-gbps", "nan"], "error: --link-gbps: nan is not a link rate"),
        (
            ["kv", "--config", "/nowhere/config.json"],
            "error: --config: can't read /nowhere/config.json: No such file or directory; give",
        ),
        (["kv", "--modle", "x"], "--model"),
        (["validate", "/nowhere.yaml"], "error: /nowhere.yaml: No such file or directory; give a file"),
        (["validte", "x"], "No such command 'validte'"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_status_2(arguments: list[str], says: str) -> None:
    done = hawk(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_config_json_is_read(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama"}', encoding="utf-8")
    done = hawk("kv", "--config", str(config))

    assert done.returncode == 2
    assert "hidden_size is missing" in done.stderr or "num_hidden_layers is missing" in done.stderr


def named(name: str, **metadata: str) -> dict[str, Any]:
    return {**manifest(), "metadata": {"name": name, **metadata}}


def test_valid_manifests_pass(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.json"
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    first.write_text(yaml.safe_dump_all([manifest(), other, named("b")]), encoding="utf-8")
    second.write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [named("c")]}), encoding="utf-8"
    )
    done = hawk("validate", str(first), str(second), "-o", "json")
    report = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert report["valid"] is True
    assert [(o["file"], o["index"]) for o in report["objects"]] == [
        (str(first), 0),
        (str(first), 2),
        (str(second), 0),
    ]


def test_invalid_manifests_are_reported_whole_with_status_2() -> None:
    bad = manifest(group(acceleratorClass="h100"), group(role="Decode"))
    done = hawk("validate", "-", "-o", "json", stdin=yaml.safe_dump(bad))
    [checked] = json.loads(done.stdout)["objects"]

    assert done.returncode == 2
    assert [v["field"] for v in checked["violations"]] == [
        "spec.groups[1].name",
        "spec.groups[0].acceleratorClass",
    ]
    assert {v["severity"] for v in checked["violations"]} == {"Error"}


@pytest.mark.parametrize(
    ("layout", "code"), [({"preset": "latent"}, 2), ({"notation": "s d"}, 2), ({"preset": "tiles-16x16"}, 0)]
)
def test_layouts_that_cannot_hold_the_model_are_refused(layout: dict[str, str], code: int) -> None:
    body = manifest(group(), group("decode", "Decode", kvLayout=layout))

    done = hawk("validate", "-", "--output", "json", stdin=yaml.safe_dump(body))

    assert done.returncode == code
    found = [one for entry in json.loads(done.stdout)["objects"] for one in entry["violations"]]
    assert [one["field"] for one in found if one["severity"] == "Error"] == ["spec.groups"] * bool(code)
    assert not code or "prefill to decode: " in found[0]["message"]


def test_the_table_names_field_and_remedy() -> None:
    done = hawk("validate", "-", stdin=yaml.safe_dump(manifest(group(replicas={"min": 3, "max": 1}))))

    assert done.returncode == 2
    assert "spec.groups[0].replicas.max" in done.stdout
    assert "raise max or lower min" in done.stdout


def test_classes_and_config_maps_beside_a_pool_are_known() -> None:
    mine = {
        "apiVersion": "hawkpool.dev/v1alpha1",
        "kind": "AcceleratorClass",
        "metadata": {"name": "mine"},
        "spec": {"memory": "80G"},
    }
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m"},
        "data": {"config.json": "{"},
    }
    pool = manifest(
        group(acceleratorClass="mine"), group("d", "Decode"), model={"configMapRef": {"name": "m"}}
    )
    alone = hawk("validate", "-", "-o", "json", stdin=yaml.safe_dump(pool))
    together = hawk("validate", "-", "-o", "json", stdin=yaml.safe_dump_all([mine, config, pool]))

    fields: list[list[str]] = [
        [v["field"] for o in json.loads(done.stdout)["objects"] for v in o["violations"]]
        for done in (alone, together)
    ]
    assert fields == [["spec.groups[0].acceleratorClass"], ["spec.model.configMapRef"]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no objects of hawkpool.dev/v1alpha1"),
        ("kind: [", "not YAML or JSON"),
        ("{}", None),
        ("just text", None),
        (
            "a: &a [x, x, x]\n"
            + "".join(f"b{i}: &b{i} [{', '.join([f'*b{i - 1}' if i else '*a'] * 9)}]\n" for i in range(9)),
            "aliases",
        ),
        ("\x00", "not YAML or JSON"),
    ],
)
def test_what_is_no_manifest_is_refused(text: str, says: str | None) -> None:
    done = hawk("validate", "-", stdin=text)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert says is None or says in done.stderr


@pytest.mark.parametrize("version", ["hawkpool.io/v1alpha1", "v1", "HawkPool.dev/v1alpha1"])
def test_our_kind_of_another_group_is_no_stranger(version: str) -> None:
    misspelt = {**named("b"), "apiVersion": version}
    done = hawk("validate", "-", "-o", "json", stdin=yaml.safe_dump_all([manifest(), misspelt]))

    found = [[v["field"] for v in o["violations"]] for o in json.loads(done.stdout)["objects"]]
    assert (done.returncode, found) == (2, [[], ["apiVersion"]])


@pytest.mark.parametrize(
    ("objects", "code"),
    [
        ([named("a"), named("a")], 2),
        ([named("a", namespace="n"), named("b"), named("a", namespace="n")], 2),
        ([named("a", namespace="n"), named("a", namespace="m")], 0),
        ([named("a"), named("b")], 0),
    ],
)
def test_two_objects_of_one_name_are_refused(objects: list[Any], code: int) -> None:
    done = hawk("validate", "-", "-o", "json", stdin=yaml.safe_dump_all(objects))

    found = [v for o in json.loads(done.stdout)["objects"] for v in o["violations"]]
    assert done.returncode == code, found
    assert [v["field"] for v in found] == (["metadata.name"] if code else [])
    assert all("is object 1 of standard input too" in v["message"] for v in found)


def test_files_without_our_objects_are_named(tmp_path: Path) -> None:
    empty, other = tmp_path / "empty.yaml", tmp_path / "other.yaml"
    empty.touch()
    other.write_text("{apiVersion: v1, kind: Service, metadata: {name: s}}", encoding="utf-8")

    for files, names in (
        ([empty], f"{empty}"),
        ([empty, other], f"{empty}, {other}"),
        (["-"], "standard input"),
    ):
        done = hawk("validate", *map(str, files))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: {names}: no objects of hawkpool.dev/v1alpha1; give")


def test_warnings_alone_are_valid() -> None:
    done = hawk(
        "validate", "-", "-o", "json", stdin=yaml.safe_dump(manifest(objectives={"ttft": {"target": "1s"}}))
    )
    [checked] = json.loads(done.stdout)["objects"]

    assert done.returncode == 0
    assert [v["severity"] for v in checked["violations"]] == ["Warning"]


def test_the_overview_names_every_command_and_imports_none_of_them() -> None:
    code = (
        "import sys\nfrom hawk_cli.app import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "heavy = {'kopf', 'kubernetes', 'numpy', 'grpc'}\n"
        "print([m for m in sys.modules if m.split('.')[0] in heavy])"
    )
    for arguments in (["--help"], ["kv", "--model", "qwen3-8b"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout.splitlines()[-1] == "[]"
    overview = hawk("--help").stdout
    assert all(entry.name in overview and entry.help.split(".")[0][:20] in overview for entry in COMMANDS)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_command_has_help_and_both_outputs(entry: CommandEntry) -> None:
    done = hawk(entry.name, "--help")

    assert done.returncode == 0, done.stderr
    assert "Usage: hawk" in done.stdout or "Usage:" in done.stdout


def leaves() -> dict[str, typer.core.TyperCommand]:
    """Every command that does something, by its words after `hawk`."""
    root: Any = typer.main.get_command(build([entry.name for entry in COMMANDS]))
    found = {}
    for name, command in root.commands.items():
        inner = getattr(command, "commands", {"": command})
        found.update({f"{name} {word}".strip(): one for word, one in inner.items()})
    return found


def test_every_command_has_one_example() -> None:
    assert leaves().keys() == EXAMPLES.keys()


@pytest.mark.parametrize(("words", "example"), EXAMPLES.items(), ids=EXAMPLES)
def test_the_help_ends_with_an_example_that_parses(words: str, example: str) -> None:
    done = hawk(*words.split(), "--help")

    assert done.stdout.splitlines()[-1].strip() == example
    assert example.startswith(f"hawk {words} ")
    arguments = shlex.split(example.removeprefix(f"hawk {words} "))
    assert leaves()[words].make_context(words, arguments).params


@pytest.mark.parametrize(
    "arguments", [("status", "--output", "xml"), ("payoff", "pd", "--kv-dtype", "xml")], ids=" ".join
)
def test_a_refused_choice_is_told_in_the_words_of_the_command(arguments: tuple[str, ...]) -> None:
    done = hawk(*arguments)

    assert done.returncode == 2
    assert f"Invalid value for '{arguments[-2]}'" in done.stderr
    assert ": 'xml' is not one of '" in done.stderr


@pytest.mark.parametrize(
    ("shell", "says"),
    [
        ("bash", "complete -o default"),
        ("zsh", "#compdef"),
        ("fish", "complete --command"),
        ("powershell", "Register-ArgumentCompleter"),
        ("pwsh", "Register-ArgumentCompleter"),
    ],
)
def test_completion_is_printed_for_the_shell_that_is_named(shell: str, says: str) -> None:
    assert says in hawk("--show-completion", shell).stdout


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
def test_an_unknown_shell_is_refused(option: str) -> None:
    done = hawk(option, "ksh")

    assert done.returncode == 2
    assert "'ksh' is not one of bash, zsh" in done.stderr


def test_version() -> None:
    assert hawk("--version").stdout.startswith("hawk ")


def test_completion_of_commands_and_options() -> None:
    def complete(words: str) -> list[str]:
        env = {
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
            "_HAWK_COMPLETE": "complete_bash",
        }
        code = "import sys; sys.argv[0] = 'hawk'\nfrom hawk_cli.app import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, **env},
        ).stdout.split()

    assert "kv" in complete("hawk k")
    assert "--link-gbps" in complete("hawk kv --li")
    assert complete("hawk simulate --policy hpa") == ["hpa", "hpa-queue"]
    assert complete("hawk simulate --trace r") == ["rag"]

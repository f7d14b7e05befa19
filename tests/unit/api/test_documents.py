"""A key that is written twice in one mapping is refused, with its lines, in all YAML that commands read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from hawk_api.documents import DuplicateKeyError, load_documents

from .pools import manifest
from .test_cli import hawk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "line", "key", "first"),
    [
        ("a: 1\na: 1\n", 2, "a", 1),
        ("a: 1\n'a': 2\n", 2, "a", 1),
        ('{"a": 1, "a": 2}', 1, "a", 1),
        ("x: 1\n---\nx:\n- b: {}\n  c: 0\n  b: {}\n", 6, "b", 4),
        ("1: x\n2: x\n1: x\n", 3, "1", 1),
    ],
)
def test_a_key_that_is_there_twice_is_refused(text: str, line: int, key: str, first: int) -> None:
    with pytest.raises(DuplicateKeyError) as refused:
        load_documents(text)

    assert str(refused.value) == f"line {line}: the key {key} is in line {first} too; remove one"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---\n---\na: 1\n",
        "a: {b: 1}\nc: {b: 1}\nd: [{b: 1}, {b: 1}]\n",
        "a: 1\n---\na: 2\n",
        "1: number\n'1': text\n",
        "x: &x {a: 1, b: 2}\ny: {<<: *x, a: 3}\nz: {<<: [*x, {a: 4}]}\n",
        "x: &x {a: 1}\ny: &y {<<: *x, a: 2}\nz: {<<: *y, a: 3}\n",
    ],
)
def test_other_text_is_read_as_ever(text: str) -> None:
    assert load_documents(text) == list(yaml.safe_load_all(text))


@pytest.mark.parametrize("words", ["validate {0}", "plan -f {0}", "simulate --trace rag --pool {0}"])
def test_every_command_names_file_line_and_key(words: str, tmp_path: Path) -> None:
    path = tmp_path / "pool.yaml"
    text = yaml.safe_dump(manifest(), sort_keys=False)
    path.write_text(f"{text}kind: HawkPool\n", encoding="utf-8")
    done = hawk(*words.format(path).split())

    assert (done.returncode, done.stdout) == (2, "")
    last = text.count("\n") + 1
    assert done.stderr == f"error: {path}: line {last}: the key kind is in line 2 too; remove one\n"


def test_measured_times_too(tmp_path: Path) -> None:
    pool, times = tmp_path / "pool.yaml", tmp_path / "times.yaml"
    pool.write_text(yaml.safe_dump(manifest()), encoding="utf-8")
    times.write_text("- model: a\n  model: b\n", encoding="utf-8")
    done = hawk("plan", "-f", str(pool), "--measured", str(times))

    assert done.returncode == 2
    assert f"{times}: line 2: the key model is in line 1 too; remove one" in done.stderr

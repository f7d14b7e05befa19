"""hawk layout: what scripts rely on."""

import json
import os
import stat
import sys

import numpy as np
import pytest

from hawk_agent.layouts import PRESETS, Layout, LayoutError, Nest
from hawk_agent.layouts.elements import BYTES
from hawk_agent.plans import calibrate_costs
from hawk_cli.app import main

TILES = ["--from", "b h s d", "--to", "b h s1 d1 s0 d0", "--sizes", "b=1,h=8,s=37,d=128,s0=16,d0=16"]
PAGES = ["--from", "h s d", "--to", "pages-hnd", "--sizes", "h=8,s=37,d=128"]


def hawk(capsys, *words) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["layout", *map(str, words)])
    out, err = capsys.readouterr()
    return ended.value.code or 0, out, err


@pytest.fixture
def rows(tmp_path):
    data = np.random.default_rng(1).integers(0, 2**16, (8, 37, 128), dtype=np.uint16)
    data.tofile(tmp_path / "in")
    return data


def test_convert_writes_padded_tiles(capsys, tmp_path, rows):
    code, out, _ = hawk(capsys, "convert", *TILES, "--output", "json", tmp_path / "in", tmp_path / "out")
    padded = np.zeros((8, 48, 128), np.uint16)
    padded[:, :37] = rows
    tiles = padded.reshape(8, 3, 16, 8, 16).transpose(0, 1, 3, 2, 4)

    assert code == 0
    assert np.array_equal(np.fromfile(tmp_path / "out", np.uint16), tiles.ravel())
    answer = json.loads(out)
    assert answer["verified"] is True
    assert (answer["source_bytes"], answer["destination_bytes"]) == (75_776, 98_304)
    assert answer["padding_bytes"] == 98_304 - 75_776


def test_convert_there_and_back_is_the_same_file(capsys, tmp_path, rows):
    there = [tmp_path / "in", tmp_path / "tiles"]
    back = ["--from", TILES[3], "--to", TILES[1], *TILES[4:], tmp_path / "tiles", tmp_path / "back"]

    assert hawk(capsys, "convert", *TILES, *there)[0] == 0
    assert hawk(capsys, "convert", *back)[0] == 0
    assert (tmp_path / "back").read_bytes() == rows.tobytes()


def test_convert_into_pages_of_a_pool(capsys, tmp_path, rows):
    words = ["--from", "h s d", "--to", "pages-hnd", "--sizes", "h=8,s=37,d=128", "--to-sizes", "s1=5"]
    code, _, _ = hawk(capsys, "convert", *words, "--to-blocks", "4,0,2", tmp_path / "in", tmp_path / "out")
    pages = np.fromfile(tmp_path / "out", np.uint16).reshape(5, 8, 16, 128)

    assert code == 0
    assert np.array_equal(pages[4], rows[:, :16])
    assert np.array_equal(pages[2, :, :5], rows[:, 32:])
    assert not pages[[1, 3]].any()
    assert not pages[2, :, 5:].any()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "b h q d", *TILES[2:]], "error: --from: notation: unknown axis 'q'"),
        (["--from", "b h s s d", *TILES[2:]], "error: --from: notation: 's' stands twice"),
        ([*TILES[:5], TILES[5].replace("s=37", f"s={2**60}")], "check them for a slip"),
        ([*TILES, "--to-sizes", "h=4"], "h (head): the source has 8 of 8, the destination 4 of 4"),
        ([*TILES, "--no-padding"], "the source has 37, the destination room for 48 in groups of 16"),
        ([*PAGES, "--to-blocks", "9,0,1"], "error: --to-blocks: block 9 is outside the pool of 3"),
        ([*PAGES, "--to-blocks", "0"], "error: --to-blocks: 1 entries, but 3 are needed"),
        ([*PAGES, "--to-blocks", "0,1,1"], "error: --to-blocks: a block stands twice"),
        ([*TILES[:4], "--sizes", "h=8,s=37,d=128"], "error: --to: sizes.s0: missing"),
        ([*TILES[:4], "--sizes", "h=8,s=37,s=38"], "error: --sizes: can't read 's=38'"),
        ([*TILES[:4], "--sizes", "h=eight"], "error: --sizes: can't read 'h=eight'"),
        ([*TILES[:5], TILES[5] + ",s7=2"], "error: --sizes: 's7' is not an axis or level"),
        ([*TILES, "--dtype", "int4"], "error: --from: dtype: int4 packs several elements"),
        ([*TILES, "--dtype", "float32"], "75776 bytes, but"),
        ([*PAGES, "--to-blocks", f"0,{2**67}"], f"block {2**67} is outside the pool of 3 blocks"),
        ([*PAGES, "--to-blocks", "9" * 5000], "error: --to-blocks: can't read '999"),
        ([*TILES[:5], "h=" + "9" * 5000], "error: --sizes: can't read 'h=999"),
        ([*TILES[:5], "h=8,s=37,s0=16,d0=16"], "error: --sizes: d is missing; add d=..."),
        ([*TILES[:5], "h=8,s0=16,d0=16"], "error: --sizes: s and d are missing; add s=...,d=..."),
        (
            ["--from", "b h s d + x", *TILES[2:]],
            "--from: notation: can't read the offset 'x' in 'b h s d + x'",
        ),
        (
            [*TILES[:2], "--to", "tiles-16x61", *TILES[4:]],
            "unknown layout 'tiles-16x61'; did you mean tiles-16x16",
        ),
        (["--from", "hsd", *TILES[2:]], "--from: unknown layout 'hsd'; use one of row-major, "),
        (
            ["--from", "hsd", *TILES[2:]],
            "or write a notation with spaces between its axes, such as 'b h s d'",
        ),
        ([*TILES, "--to-blocks", "1"], "error: --to-blocks: 'b h s1 d1 s0 d0' has no block table"),
    ],
)
def test_bad_input_names_the_option_and_leaves_no_file(capsys, tmp_path, rows, words, message):
    code, out, err = hawk(capsys, "convert", *words, tmp_path / "in", tmp_path / "out")

    assert code == 2
    assert not out
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_missing_file_is_one_error(capsys, tmp_path):
    code, _, err = hawk(capsys, "convert", *TILES, tmp_path / "absent", tmp_path / "out")

    assert code == 2
    assert "absent: No such file or directory" in err


def test_an_output_that_can_not_be_written_leaves_the_input_alone(capsys, tmp_path, rows):
    code, _, err = hawk(capsys, "convert", *TILES, tmp_path / "in", tmp_path / "no" / "out")

    assert code == 2
    assert f"error: {tmp_path}/no/out: No such file or directory; give a place" in err


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (os.mkfifo, "out: it is a pipe; name an existing regular file, or a new one"),
        (os.mkdir, "out: it is a directory; name an existing regular file"),
        (lambda out: out.symlink_to(out.parent), "out: it is a directory"),
        (lambda out: out.symlink_to(out), "out: Too many levels of symbolic links"),
        (lambda out: out.symlink_to(out.with_name("in")), "out: it is the same file as"),
        (lambda out: out.hardlink_to(out.with_name("in")), "out: it is the same file as"),
    ],
)
def test_convert_replaces_nothing_but_another_regular_file(capsys, tmp_path, rows, make, says):
    make(tmp_path / "out")
    before = (tmp_path / "out").lstat()
    code, _, err = hawk(capsys, "convert", *TILES, tmp_path / "in", tmp_path / "out")

    assert code == 2
    assert says in err
    assert (tmp_path / "out").lstat()[:3] == before[:3]
    assert (tmp_path / "in").read_bytes() == rows.tobytes()
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out"}


def test_convert_refuses_to_write_what_it_reads(capsys, tmp_path, rows):
    code, _, err = hawk(capsys, "convert", *TILES, tmp_path / "in", tmp_path / "." / "in")

    assert code == 2
    assert "in: it is the same file as" in err
    assert (tmp_path / "in").read_bytes() == rows.tobytes()


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o444])
def test_convert_keeps_the_mode_of_what_it_replaces(capsys, tmp_path, rows, kept):
    (tmp_path / "out").write_bytes(b"old")
    (tmp_path / "out").chmod(kept)

    assert hawk(capsys, "convert", *TILES, tmp_path / "in", tmp_path / "out")[0] == 0
    assert mode(tmp_path / "out") == kept
    assert (tmp_path / "out").stat().st_size == 98_304


@pytest.mark.parametrize("there", [True, False])
def test_convert_writes_where_a_link_points_and_new_files_are_private(capsys, tmp_path, rows, there):
    (tmp_path / "place").mkdir()
    (tmp_path / "out").symlink_to("place/file")
    if there:
        (tmp_path / "place" / "file").touch(0o644)

    assert hawk(capsys, "convert", *TILES, tmp_path / "in", tmp_path / "out")[0] == 0
    assert (tmp_path / "out").readlink().name == "file"
    assert [path.name for path in (tmp_path / "place").iterdir()] == ["file"]
    assert (tmp_path / "place" / "file").stat().st_size == 98_304
    assert there or mode(tmp_path / "place" / "file") == 0o600


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_an_input_that_is_no_regular_file_is_named(capsys, tmp_path, make):
    make(tmp_path / "in")
    code, _, err = hawk(capsys, "convert", *TILES, tmp_path / "in", tmp_path / "out")

    assert code == 2
    assert ("in: it is a directory" if make is os.mkdir else "in: it is a pipe") in err


@pytest.mark.parametrize("command", ["explain", "convert"])
def test_an_engine_that_can_not_run_is_one_error(capsys, tmp_path, rows, monkeypatch, command):
    monkeypatch.setenv("HAWK_ENGINE", "c-mmx")
    files = [tmp_path / "in", tmp_path / "out"] if command == "convert" else []
    code, _, err = hawk(capsys, command, *TILES, *files)

    assert code == 2
    assert err.startswith("error: HAWK_ENGINE: 'c-mmx' can't run here; use one of ")
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def refusing(nest, source, destination, **_):
    """A run that fails while it holds views of both sides, as a refusal of the kernel does."""
    views = np.frombuffer(source, np.uint8), np.frombuffer(destination, np.uint8)
    raise LayoutError(f"engine: refused {len(views)} sides; say so")


def test_a_refusal_amid_a_run_is_what_is_said(capsys, tmp_path, rows, monkeypatch):
    monkeypatch.setattr(Nest, "run", refusing)
    code, _, err = hawk(capsys, "convert", *TILES, tmp_path / "in", tmp_path / "out")

    assert (code, err) == (2, "error: engine: refused 2 sides; say so\n")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_result_that_is_wrong_takes_no_place(capsys, tmp_path, rows, monkeypatch):
    monkeypatch.setattr(Nest, "run", lambda nest, source, destination, **_: -1)
    (tmp_path / "out").write_bytes(b"old")
    code, _, err = hawk(capsys, "convert", *TILES, tmp_path / "in", tmp_path / "out")

    assert code == 1
    assert "out: its digest would differ from the source's" in err
    assert (tmp_path / "out").read_bytes() == b"old"


def test_a_calibration_that_is_refused_says_so(monkeypatch):
    monkeypatch.setattr(Nest, "run", refusing)
    with pytest.raises(LayoutError, match="refused 2 sides"):
        calibrate_costs()


def test_explain_counts_what_a_card_would_be_asked_for(capsys):
    sizes = ["--sizes", "l=80,c=2,b=1,h=8,s=32768,d=128,s0=16,d0=16"]
    words = ["--from", "l c b h s d", "--to", "l c b h d1 s1 s0 d0", *sizes, "--max-sge", 32]
    code, out, _ = hawk(capsys, "explain", *words, "--output", "json")
    answer = json.loads(out)
    strided = next(keys for keys in answer["keys"] if keys["kind"] == "strided")

    assert code == 0
    assert answer["payload_bytes"] == 10_737_418_240
    assert (strided["writes"], strided["keys"], strided["rkeys"]) == (10_240, 10_240, 0)
    assert (answer["work_requests"], answer["sges"]) == (10_485_760, 335_544_320)
    assert {strategy["name"] for strategy in answer["strategies"]} >= {"fused-copy", "tile-then-send"}
    assert all(strategy["predicted_ms"] > 0 for strategy in answer["strategies"])


GOLDEN = "l=80,c=2,h=8,s=32768,d=128"


@pytest.mark.parametrize(
    ("source", "target", "kind", "numbers"),
    [
        ("row-major", "nz", "strided", (10_240, 1 << 20, 10_240, 0, 10_240)),
        ("row-major", "tiles-16x16", "strided", (10_240, 1 << 20, 20_480, 10_240, 20_480)),
        ("pages-hnd", "tiles-16x16", "interleaved", (2_621_440, 4096, 2_621_440, 0, 2_621_440)),
        ("pages-hnd", "tiles-16x16", "strided", (20_971_520, 512, 20_971_520, 0, 20_971_520)),
    ],
)
def test_explain_counts_keys_and_says_that_hardware_was_not_seen(capsys, source, target, kind, numbers):
    words = ["explain", "--from", source, "--to", target, "--sizes", GOLDEN]
    _, out, _ = hawk(capsys, *words, "-o", "json")
    answer = json.loads(out)
    keys = next(keys for keys in answer["keys"] if keys["kind"] == kind)
    _, people, _ = hawk(capsys, *words)
    line = next(line for line in people.splitlines() if line.startswith(f"{kind} keys"))

    assert tuple(keys[key] for key in ("writes", "write_bytes", "keys", "rkeys", "invalidations")) == numbers
    assert answer["keys_hardware_seen"] is False
    for number, word in zip(numbers, ("writes", "bytes", "keys", "rkeys", "invalidations"), strict=True):
        assert f"{number:,} {word}" in line
    assert "hardware has not been seen" in people


def test_explain_proves_keys_on_a_model(capsys):
    words = ["--from", "pages-hnd", "--to", "tiles-16x16", "--sizes", "h=2,s=64,d=128"]
    _, out, _ = hawk(capsys, "explain", *words, "--prove-keys", "-o", "json")
    code, _, err = hawk(capsys, "explain", *words[:-1], GOLDEN, "--prove-keys")

    assert [keys["proved_on_model"] for keys in json.loads(out)["keys"]] == [True, True, True]
    assert code == 2
    assert "--prove-keys: a side is larger than 67108864 bytes" in err


@pytest.mark.parametrize("asked", [(), ("--measure",)])
def test_explain_measures_what_it_predicts(capsys, asked):
    code, out, _ = hawk(capsys, "explain", *TILES, *asked, "-o", "json")
    _, people, _ = hawk(capsys, "explain", *TILES, *asked)
    fused, *others = json.loads(out)["strategies"]

    assert code == 0
    assert fused["measured_ms"] > 0
    assert all(strategy["measured_ms"] is None for strategy in others)
    assert "predicted ms  measured ms" in people


@pytest.mark.parametrize("sizes", [(TILES[5], "--no-measure"), ("b=1,h=8,s=32768,d=128,s0=16,d0=16,l=2",)])
def test_explain_does_not_measure_what_is_large_or_was_not_wanted(capsys, sizes):
    notation = ["--from", "l b h s d", "--to", "l b h s1 d1 s0 d0", "--sizes", *sizes]
    _, out, _ = hawk(capsys, "explain", *notation, "-o", "json")
    _, people, _ = hawk(capsys, "explain", *notation)
    why = "a side has 134,217,728 bytes, more than 64 MiB; --measure takes up to 1,024 MiB"

    assert json.loads(out)["not_measured"] == (None if "--no-measure" in sizes else why)
    assert (f"not measured: {why}" in people) != ("--no-measure" in sizes)
    assert not any("measured_ms" in strategy for strategy in json.loads(out)["strategies"])


def test_explain_says_why_it_did_not_measure_what_it_was_asked_to(capsys):
    words = ["--from", "row-major", "--to", "nz", "--sizes", GOLDEN, "--measure"]
    code, out, _ = hawk(capsys, "explain", *words)

    assert code == 0
    assert "not measured: a side has 10,737,418,240 bytes, more than 1,024 MiB; give fewer layers" in out


@pytest.mark.parametrize("option", ["--max-sge", "--max-message-bytes", "--key-uses"])
def test_explain_names_the_option_that_is_too_small(capsys, option):
    code, out, err = hawk(capsys, "explain", *TILES, option, 0)

    assert (code, out) == (2, "")
    assert err == f"error: {option}: 0 is too small; give at least 1\n"


def test_presets_are_listed_for_people_and_for_scripts(capsys):
    _, people, _ = hawk(capsys, "presets")
    _, out, _ = hawk(capsys, "presets", "-o", "json")
    listed = json.loads(out)["presets"]

    assert [preset["name"] for preset in listed] == list(PRESETS)
    for preset in listed:
        made = Layout.parse(preset["notation"], {**preset["sizes"], "s": 256, "d": 64})
        assert made == Layout.preset(preset["name"], {"s": 256, "d": 64})
        assert any(
            line.startswith(preset["name"]) and preset["notation"] in line and preset["about"] in line
            for line in people.splitlines()
        )


@pytest.mark.parametrize("command", ["convert", "explain"])
def test_help_names_every_element_type_and_where_presets_are_listed(capsys, command):
    _, out, _ = hawk(capsys, command, "--help")
    unwrapped = " ".join(out.split())

    assert ", ".join(BYTES) in unwrapped
    assert "hawk layout presets" in unwrapped


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("hawk layout explain --from tiles-", {name for name in PRESETS if name.startswith("tiles-")}),
        ("hawk layout convert --to n", {"nz", "nz-32"}),
        ("hawk layout explain --dtype float8", {name for name in BYTES if name.startswith("float8")}),
        ("hawk bench plan --to pages-l", {"pages-latent"}),
        ("hawk bench copy --baseline n", {"nixl"}),
    ],
)
def test_shells_complete_values(capsys, monkeypatch, words, found):
    monkeypatch.setattr(sys, "argv", ["hawk"])
    monkeypatch.setenv("_HAWK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    with pytest.raises(SystemExit):
        main([])

    assert set(capsys.readouterr().out.split()) == found


def test_explain_for_people_shows_the_nest(capsys):
    code, out, _ = hawk(
        capsys, "explain", "--from", "pages-hnd", "--to", "tiles-16x16", "--sizes", "h=8,s=64,d=128"
    )

    assert code == 0
    assert "l c [s1] h s0 d  ->  l c b h s1 d1 s0 d0" in out
    assert "table +1" in out
    assert "chosen on one host" in out

"""Every engine and every width of run gives the same bytes, whatever the alignment."""

import os
import subprocess
import sys

import numpy as np
import pytest

from hawk_agent.layouts import Layout, LayoutError, compile_nest, engines
from hawk_agent.layouts.engines import engine

from .test_translation import engine as forced

HEADS, TOKENS = 3, 70


def tiled(data: np.ndarray, tile: tuple[int, int]) -> np.ndarray:
    """Row-major [h, s, d] to tiles, by padding, reshaping and transposing."""
    heads, tokens, features = data.shape
    rows, columns = -(-tokens // tile[0]), -(-features // tile[1])
    padded = np.zeros((heads, rows * tile[0], columns * tile[1]), data.dtype)
    padded[:, :tokens, :features] = data
    return padded.reshape(heads, rows, tile[0], columns, tile[1]).transpose(0, 1, 3, 2, 4)


@pytest.mark.parametrize("stream", [False, True], ids=["cached", "streamed"])
@pytest.mark.parametrize("shift", [0, 1, 8, 16, 32])
@pytest.mark.parametrize("name", engines.available())
def test_every_run_length_and_alignment(name, shift, stream):
    for width in (1, 2, 4, 8, 16, 32, 64, 96, 256):
        sizes = {"h": HEADS, "s": TOKENS, "d": 256}
        data = np.random.default_rng(width).integers(1, 256, (HEADS, TOKENS, 256), dtype=np.uint8)
        source = Layout.parse("h s d", sizes, "int8")
        target = Layout.parse("h s1 d1 s0 d0", {**sizes, "s0": 16, "d0": width}, "int8")
        expected = tiled(data, (16, width)).ravel()
        memory = np.full(target.nbytes + 192, 255, np.uint8)
        start = -memory.ctypes.data % 64 + shift
        out = memory[start : start + target.nbytes]
        with forced(name, stream):
            read = compile_nest(source, target).run(data, out, key=7)

            assert np.array_equal(out, expected)
            assert (memory[:start] == 255).all()
            assert (memory[start + target.nbytes :] == 255).all()
            assert compile_nest(source, target).digest_destination(out, 7) == read

            back = np.full(data.size, 255, np.uint8)
            compile_nest(target, source).run(out, back)

            assert np.array_equal(back, data.ravel())


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize("name", engines.available())
def test_transposed_keys(name, dtype):
    sizes = {"h": HEADS, "s": TOKENS, "d": 48}
    kind = {"int8": np.uint8, "float16": np.uint16, "float32": np.uint32}[dtype]
    data = np.random.default_rng(1).integers(1, 200, (HEADS, TOKENS, 48)).astype(kind)
    out = np.zeros(data.size, kind)
    nest = compile_nest(Layout.parse("h s d", sizes, dtype), Layout.parse("h d s", sizes, dtype))
    with forced(name, stream=True):
        nest.run(data, out)

        assert np.array_equal(out, data.transpose(0, 2, 1).ravel())
        assert nest.digest_source(data, 3) == nest.digest_destination(out, 3)


def test_samples_agree_between_engines_and_sides():
    sizes = {"l": 2, "h": 4, "s": 200, "d": 64}
    source = Layout.preset("row-major", sizes)
    target = Layout.preset("nz", sizes)
    data = np.random.default_rng(1).integers(0, 256, source.nbytes, dtype=np.uint8)
    out = np.zeros(target.nbytes, np.uint8)
    nest = compile_nest(source, target)
    nest.run(data, out)
    for sample in (1, 2, 7, 64, 10**6):
        found = set()
        for name in engines.available():
            with forced(name):
                found |= {
                    nest.digest_source(data, 5, sample=sample),
                    nest.digest_destination(out, 5, sample=sample),
                }

        assert len(found) == 1, sample


def test_an_engine_that_is_not_here_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("HAWK_ENGINE", "c-mmx")

    with pytest.raises(LayoutError, match="HAWK_ENGINE: 'c-mmx' can't run here; use one of"):
        engine()


def test_numpy_is_always_available():
    assert "numpy" in engines.available()


def test_the_engines_are_those_that_were_asked_for():
    """A run under sanitizers says which engines it must have."""
    assert " ".join(engines.available()) == os.environ.get("HAWK_EXPECTED", " ".join(engines.available()))


def test_without_the_kernel_numpy_runs():
    """As where the package was installed without a compiler."""
    code = (
        "import sys; sys.modules['hawk_agent.layouts._kernel'] = None\n"
        "from hawk_agent.layouts import Layout, compile_nest\n"
        "from hawk_agent.layouts.engines import engine\n"
        "nest = compile_nest(Layout.parse('s d', dict(s=4, d=8)), Layout.parse('d s', dict(s=4, d=8)))\n"
        "out = bytearray(64)\n"
        "nest.run(bytes(range(64)), out)\n"
        "print(engine(), out[:4].hex())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )

    assert done.stdout.split() == ["numpy", "00011011"]

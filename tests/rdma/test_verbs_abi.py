"""Our declarations of libibverbs' ABI against the real header: every size, offset and value."""

from __future__ import annotations

import subprocess
from pathlib import Path

import hawk_agent.transports.verbs
from tests.unit import verbs

PACKAGE = Path(hawk_agent.transports.verbs.__file__).parent
SOURCE = Path(verbs.__file__).parent / "abi.c"


def compiled(folder: Path, header: str) -> subprocess.CompletedProcess[str]:
    (folder / "_ibv.h").write_text(header)
    command = ["cc", "-std=gnu11", "-fsyntax-only", f"-I{folder}", str(SOURCE)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


def test_every_structure_is_the_librarys(tmp_path: Path):
    done = compiled(tmp_path, (PACKAGE / "_ibv.h").read_text())

    assert (done.returncode, done.stderr) == (0, "")


def test_a_field_out_of_place_does_not_compile(tmp_path: Path):
    """The control: were nothing asserted, this would compile as well."""
    header = (PACKAGE / "_ibv.h").read_text()
    wrong = header.replace("    int num_sge, opcode;\n", "    int opcode, num_sge, more;\n", 1)
    done = compiled(tmp_path, wrong)

    assert wrong != header
    assert done.returncode != 0
    assert "ibv_send_wr" in done.stderr

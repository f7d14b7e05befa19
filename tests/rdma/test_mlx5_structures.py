"""The structures of strided keys, compiled against the provider's own header."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from hawk_agent.transports.verbs import mlx5_keys, mlx5_model

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

STRUCTURES = {
    "mlx5dv_mr_interleaved": mlx5_keys.INTERLEAVED,
    "ibv_sge": mlx5_keys.SGE,
    "mlx5_wqe_umr_repeat_block_seg": mlx5_model.REPEAT_BLOCK,
    "mlx5_wqe_umr_repeat_ent_seg": mlx5_model.REPEAT_ENTRY,
    "mlx5_wqe_umr_klm_seg": mlx5_model.KLM,
}


def compiled(folder: Path, structures: dict[str, np.dtype]) -> subprocess.CompletedProcess[str]:
    lines = ["#include <stddef.h>", "#include <infiniband/mlx5dv.h>"]
    for name, dtype in structures.items():
        lines.append(f'_Static_assert(sizeof(struct {name}) == {dtype.itemsize}, "size of {name}");')
        for field in dtype.names:
            kind, offset = dtype.fields[field][:2]
            place, size = f"offsetof(struct {name}, {field})", f"sizeof(((struct {name} *)0)->{field})"
            lines.append(f'_Static_assert({place} == {offset}, "offset of {name}.{field}");')
            lines.append(f'_Static_assert({size} == {kind.itemsize}, "size of {name}.{field}");')
    source = folder / "structures.c"
    source.write_text("\n".join(lines) + "\n")
    command = ["cc", "-std=gnu11", "-fsyntax-only", str(source)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_structures_are_the_providers(tmp_path: Path) -> None:
    done = compiled(tmp_path, STRUCTURES)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["mlx5dv_mr_interleaved", "mlx5_wqe_umr_repeat_ent_seg"])
def test_another_structure_would_not_compile(tmp_path: Path, name: str) -> None:
    """The control: were nothing asserted, the sizes of another structure would do as well."""
    done = compiled(tmp_path, {name: mlx5_keys.SGE})

    assert done.returncode != 0
    assert "size of" in done.stderr or "no member" in done.stderr

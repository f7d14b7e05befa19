"""The model that a command is asked about: by name, or by its config.json."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hawk_api.models import ModelConfigError, load_preset, parse_config
from hawk_api.models.config import SEPARATE
from hawk_cli.support.output import fail

if TYPE_CHECKING:
    from hawk_api.models import Geometry

ModelOption = Annotated[
    str | None, typer.Option("--model", help="A model known by name (hawk kv --list).", show_default=False)
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="The model's config.json instead; hf_quant_config.json beside it is read too.",
        show_default=False,
    ),
]


def chosen_geometry(model: str | None, config: Path | None) -> Geometry:
    """The geometry of `--model` or of `--config`; ends the command where neither or both are given."""
    if (model is None) == (config is None):
        fail("--model: give exactly one of --model and --config; hawk kv --list prints the known models")
    try:
        if config is None:
            return load_preset(str(model))
        beside = config.with_name(SEPARATE)
        separate = _read(beside) if beside.is_file() else None
        return parse_config(_read(config), str(config), quantization=separate)
    except ModelConfigError as error:
        fail(f"--config: {error}")
    except ValueError as error:
        fail(f"--model: {error}")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        fail(f"--config: can't read {path}: {error.strerror}; give a config.json")
    except UnicodeDecodeError:
        fail(f"--config: can't read {path}: it isn't UTF-8 text; give a config.json")

"""Lock the dependency ranges of pyproject.toml to versions with hashes, and no download address.

`lock.py` re-locks after a change of ranges and moves nothing else; `--upgrade` moves everything.
operator.txt and agent.txt are what their images install; dev.txt is what the Makefile installs, by the uv of
uv.txt; mutants.txt is what `make mutants` adds to it; audit.txt is what `make audit` and `make sbom` run.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LOCKS = {
    "operator.txt": ["pyproject.toml", "--extra", "operator"],
    "agent.txt": ["pyproject.toml", "--extra", "agent"],
    "dev.txt": ["pyproject.toml", "--all-extras", "--group", "dev"],
    "uv.txt": ["--group", "uv"],
    "mutants.txt": ["--group", "mutants", "--constraint", "requirements/dev.txt"],
    "audit.txt": ["--group", "audit"],
}


def main(arguments: list[str]) -> None:
    """Write every lock file."""
    for name, selection in LOCKS.items():
        command = [sys.executable, "-m", "uv", "pip", "compile", *selection, *arguments]
        command += ["--universal", "--python-version", "3.11", "--generate-hashes"]
        command += ["--no-header", "--no-annotate", "--quiet", "--output-file", str(HERE / name)]
        subprocess.run(command, cwd=HERE.parent, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])

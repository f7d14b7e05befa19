"""Checks the import contracts of the folder that it runs in, once for each line of its input.

A process of its own finds the packages of that folder and not the installed ones; one process for many checks
starts Python and import-linter once.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

from importlinter.cli import lint_imports

if __name__ == "__main__":
    for _ in sys.stdin:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            lint_imports(no_cache=True, no_logo=True)
        print(json.dumps(said.getvalue()), flush=True)

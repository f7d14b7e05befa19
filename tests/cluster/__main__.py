"""Run the command line: `python -m tests.cluster build | up | down | status | kubeconfig`."""

from .cli import app

app(prog_name="python -m tests.cluster")

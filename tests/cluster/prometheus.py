"""A Prometheus for one test or the demo: found or fetched, started with a scrape configuration, stopped."""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.support import debian
from tests.support.errors import MissingToolError
from tests.support.ports import Ports
from tests.support.progress import Progress, Silent
from tests.support.waiting import until

from . import gobuild

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.support.supervisor import Process, Supervisor

HTTP_SECONDS = 10.0
READY_SECONDS = 60.0
RECIPE = gobuild.Recipe(
    name="prometheus",
    module=Path(__file__).parent / "tools" / "prometheus",
    packages={"prometheus": "github.com/prometheus/prometheus/cmd/prometheus"},
    flags=("-mod=readonly", "-buildvcs=false", "-trimpath", "-tags=remove_all_sd,netgo", "-ldflags=-s -w"),
    cold_cpu_minutes=11,
)


class Prometheus:
    """A running Prometheus; `url` is its address."""

    def __init__(self, process: Process, folder: Path, ports: Ports, port: int) -> None:
        self.process = process
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self._ports = ports

    @classmethod
    def start(
        cls,
        program: Path,
        supervisor: Supervisor,
        *,
        jobs: Sequence[str] = ("engines",),
        scrape_interval: str = "1s",
        configuration: Mapping[str, Any] | None = None,
    ) -> Self:
        """Start and return when it is ready to answer.

        Every name in `jobs` is a scrape job whose targets `targets` sets while it runs. `configuration` adds
        to or replaces top-level keys of the configuration file. Raises ProcessEndedError and TimeoutError.
        """
        folder = Path(tempfile.mkdtemp(prefix="prometheus-", dir=supervisor.folder))
        settings = {
            "global": {"scrape_interval": scrape_interval, "scrape_timeout": scrape_interval},
            "scrape_configs": [
                {
                    "job_name": job,
                    "file_sd_configs": [{"files": [f"{folder}/{job}.json"], "refresh_interval": "1s"}],
                }
                for job in jobs
            ],
            **(configuration or {}),
        }
        file = folder / "prometheus.yml"
        file.write_text(json.dumps(settings))
        ports = Ports()
        port = ports.reserve()
        command: list[str | Path] = [
            program,
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'data'}",
        ]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--web.enable-lifecycle", "--log.level=warn"]
        process = supervisor.spawn(command, name="prometheus", cwd=folder)
        server = cls(process, folder, ports, port)
        try:
            until(
                server._ready,
                what="Prometheus' /-/ready",
                timeout=READY_SECONDS,
                interval=0.05,
                ignore=(OSError,),
            )
        except BaseException:
            server.stop()
            raise
        return server

    def targets(self, job: str, addresses: Sequence[str], labels: Mapping[str, str] | None = None) -> None:
        """Set what a job scrapes (host:port); `labels` are added to every series. Takes about a second."""
        self.target_groups(job, [{"targets": list(addresses), "labels": dict(labels or {})}])

    def target_groups(self, job: str, groups: Sequence[Mapping[str, Any]]) -> None:
        """Set a job's targets in groups, each `{"targets": [...], "labels": {...}}`."""
        draft = self.folder / f".{job}.json"
        draft.write_text(json.dumps(groups))
        draft.rename(self.folder / f"{job}.json")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an instant query; raises urllib.error.HTTPError for a bad expression."""
        answer = self._get(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        result: list[dict[str, Any]] = json.loads(answer)["data"]["result"]
        return result

    def stop(self) -> None:
        """Kill it and give its port back; its data goes with the run folder."""
        self.process.kill()
        self._ports.close()

    def _ready(self) -> bool:
        self.process.check()
        self._get("/-/ready")
        return True

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path, timeout=HTTP_SECONDS) as response:
            body: bytes = response.read()
        return body


def find_prometheus(progress: Progress | None = None) -> Path:
    """Return a Prometheus: on PATH, else out of Debian's package (not installed), else built from source.

    Raises MissingToolError (no Go either) and BuildError.
    """
    progress = progress or Silent()
    if on_path := shutil.which("prometheus"):
        return Path(on_path)
    return packaged(progress) or gobuild.built(RECIPE, progress) / "prometheus"


def packaged(progress: Progress) -> Path | None:
    """Return the program out of Debian's package, fetched once, or None where apt doesn't have it."""
    if not debian.available():
        return None
    try:
        folder = debian.unpacked("prometheus", ["prometheus"], progress, alone=True)
    except MissingToolError:
        return None
    return folder / "usr" / "bin" / "prometheus"

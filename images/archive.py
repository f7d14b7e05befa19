"""Images as OCI archives."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Layer:
    """One layer as a tar file; `digest` is its SHA-256, which also is its content's."""

    path: Path
    digest: str

    @property
    def size(self) -> int:
        """Bytes."""
        return self.path.stat().st_size


@dataclass(frozen=True)
class Image:
    """A name, its layers from the lowest up, and what runs in it by default."""

    name: str
    layers: tuple[Layer, ...]
    user: str = ""
    entrypoint: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all layers."""
        return sum(layer.size for layer in self.layers)

    def config(self) -> dict[str, Any]:
        """The OCI image configuration."""
        run_as = {"User": self.user, "Entrypoint": list(self.entrypoint)}
        return {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {"Env": [f"PATH={PATHS}"], **{key: value for key, value in run_as.items() if value}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in self.layers]},
        }


def write_archive(images: Sequence[Image], target: Path) -> None:
    """Write images that may share layers as one OCI archive."""
    with tarfile.open(target, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        for one in dict.fromkeys(one for image in images for one in image.layers):
            archive.add(one.path, f"blobs/sha256/{one.digest}")
        body = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [_manifest(archive, image) for image in images],
        }
        _add(archive, "index.json", json.dumps(body).encode())


def _manifest(archive: tarfile.TarFile, image: Image) -> dict[str, Any]:
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": _blob(archive, image.config(), "application/vnd.oci.image.config.v1+json"),
        "layers": [
            {
                "mediaType": "application/vnd.oci.image.layer.v1.tar",
                "digest": f"sha256:{one.digest}",
                "size": one.size,
            }
            for one in image.layers
        ],
    }
    return {**_blob(archive, manifest, kind), "annotations": {"io.containerd.image.name": image.name}}


def _blob(archive: tarfile.TarFile, content: dict[str, Any], kind: str) -> dict[str, Any]:
    data = json.dumps(content).encode()
    digest = hashlib.sha256(data).hexdigest()
    _add(archive, f"blobs/sha256/{digest}", data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))

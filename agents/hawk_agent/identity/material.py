"""Certificate, key and trusted authorities as three files, and whether they fit together.

They are replaced one by one, each by a rename: a reader sees old or new, never a part. Between two renames
the key may be newer than the certificate; `read` sees that they don't belong together and looks again.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from hawk_agent.identity.errors import IdentityError
from hawk_api.certificates import server_name, uri

if TYPE_CHECKING:
    from datetime import datetime

_LOOKS: Final = 50
_REST_SECONDS: Final = 0.01


@dataclass(frozen=True)
class Files:
    """Where the three are."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True)
class Material:
    """The three files' content as PEM."""

    certificate: bytes
    key: bytes
    authority: bytes

    @property
    def leaf(self) -> x509.Certificate:
        """The agent's certificate. ValueError when it isn't one."""
        return x509.load_pem_x509_certificate(self.certificate)

    def fits(self) -> bool:
        """True if the key is the certificate's; False too when either is unreadable."""
        try:
            key = serialization.load_pem_private_key(self.key, password=None)
            return key.public_key() == self.leaf.public_key()
        except (ValueError, TypeError):
            return False

    def objection(self, node: str, pod_uid: str, now: datetime) -> str:
        """Why peers would not accept this for the agent pod on `node` at `now`; "" when they would."""
        if not self.fits():
            return "the key is not the certificate's"
        try:
            names = self.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            trusted = Store(x509.load_pem_x509_certificates(self.authority))
        except (ValueError, x509.ExtensionNotFound) as error:
            return f"it can't be read: {error}"
        dns = x509.DNSName(server_name(node))
        wanted = [dns, x509.UniformResourceIdentifier(uri(node, pod_uid))]
        if list(names) != wanted:
            return f"it is for {[name.value for name in names]}, not for {[name.value for name in wanted]}"
        verifier = PolicyBuilder().store(trusted).time(now).build_server_verifier(dns)
        try:
            verifier.verify(self.leaf, [])
        except VerificationError as error:
            return f"the trusted authorities do not vouch for it: {error}"
        return ""


def renew_at(leaf: x509.Certificate, spread: float) -> datetime:
    """When to renew: at two thirds of the life, up to a tenth of it earlier by `spread` (0 to 1).

    The spread keeps the agents of a cluster that was started at once from renewing at once for ever.
    """
    life = leaf.not_valid_after_utc - leaf.not_valid_before_utc
    return leaf.not_valid_before_utc + life * (2 / 3 - spread / 10)


def read_material(files: Files, looks: int = _LOOKS) -> Material:
    """The three files, key and certificate belonging together; IdentityError when they don't or are missing.

    May sleep 10 ms between two looks: call it in a thread, or with one look.
    """
    for look in range(looks):
        try:
            material = Material(
                files.certificate.read_bytes(), files.key.read_bytes(), files.authority.read_bytes()
            )
        except OSError as error:
            raise IdentityError(f"{error.filename}: {error.strerror}; the agent needs it for TLS") from error
        if material.fits():
            return material
        if look < looks - 1:
            time.sleep(_REST_SECONDS)
    raise IdentityError(
        f"{files.key}: not the key of the certificate in {files.certificate}; replace both together"
    )


def write_material(files: Files, material: Material) -> None:
    """Replace the three files: authorities first, so that nothing is presented before it is trusted here.

    All are on the disk before the first is renamed, so key and certificate disagree for microseconds only.
    """
    _replace(
        (files.authority, material.authority),
        (files.key, material.key),
        (files.certificate, material.certificate),
    )


def write_authority(files: Files, authority: bytes) -> None:
    """Replace what is trusted, and nothing else."""
    _replace((files.authority, authority))


def _replace(*contents: tuple[Path, bytes]) -> None:
    """Write beside the targets, then rename; only the owner may read them."""
    with contextlib.ExitStack() as stack:
        written = []
        for path, content in contents:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            stack.callback(Path(name).unlink, missing_ok=True)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            written.append((Path(name), path))
        for beside, path in written:
            beside.replace(path)

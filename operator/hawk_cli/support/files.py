"""Raw files as memory: one that is read, and one that takes its place when all went well."""

from __future__ import annotations

import mmap
import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hawk_cli.support.output import fail

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def mapped(path: Path, size: int, remedy: str) -> mmap.mmap:
    """A regular file of `size` bytes as memory that is only read.

    It isn't closed but let go of: after an error, its traceback may still hold views of it.

    Args:
        path: the file; of another kind or size, the command ends.
        size: bytes that it has to hold, above 0.
        remedy: what to do where it holds another number of bytes.
    """
    with _failing(path, "give a readable file"):
        _regular(path, path.stat(), "give a regular file")  # opening a pipe would wait for its other end
        with path.open("rb") as file:
            found = os.fstat(file.fileno()).st_size
            if found != size:
                fail(f"{path}: {found} bytes, {remedy}")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def replacing(target: Path, size: int, *, source: Path) -> Iterator[mmap.mmap]:
    """A new file of zeros as memory, which takes the target's place if all goes well.

    A file that is replaced leaves its mode, and where that is allowed its owner, to the new one; what is
    new is its owner's alone, as it holds what people asked. Symbolic links are followed, not replaced.

    Args:
        target: a regular file, or the place for one; otherwise the command ends.
        size: bytes of the new file.
        source: what is read, and must not be the target.
    """
    with _failing(target, "give a place that can be written"):
        before = _standing(target, source)
        place = Path(os.path.realpath(target))
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".hawk-layout.", delete=False) as file:
            try:
                # Reserved, because on a full disk writing to mapped memory would end the process.
                os.posix_fallocate(file.fileno(), 0, size)
                memory = mmap.mmap(file.fileno(), size)  # let go of, as in `mapped`
                yield memory
                memory.flush()
                if before is not None:
                    with suppress(OSError):
                        os.fchown(file.fileno(), before.st_uid, before.st_gid)
                    os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
                Path(file.name).replace(place)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise


def _standing(target: Path, source: Path) -> os.stat_result | None:
    """The file at the target that may be replaced."""
    try:
        found = target.stat()
    except FileNotFoundError:
        return None
    _regular(target, found, "name an existing regular file, or a new one")
    if source.samefile(target):
        fail(f"{target}: it is the same file as {source}; name a different file to write")
    return found


def _regular(path: Path, found: os.stat_result, remedy: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "not a regular file")
        fail(f"{path}: it is {kind}; {remedy}")


@contextmanager
def _failing(path: Path, remedy: str) -> Iterator[None]:
    """End the command with the name that the user gave, whatever file an error names."""
    try:
        yield
    except OSError as error:
        fail(f"{path}: {error.strerror}; {remedy}")

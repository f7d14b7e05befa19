"""Where built and fetched tools live: outside the clone, placed whole or not at all, one builder at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCK_POLL_SECONDS = 0.2
LOCK_TIMEOUT_SECONDS = 3600.0


def root() -> Path:
    """Return the cache folder: `$HAWK_CACHE`, else `$XDG_CACHE_HOME/hawkpool`, else `~/.cache/hawkpool`."""
    if chosen := os.environ.get("HAWK_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hawkpool"


@contextlib.contextmanager
def locked(
    name: str, waiting: Callable[[str], None] | None = None, *, timeout: float = LOCK_TIMEOUT_SECONDS
) -> Iterator[None]:
    """Hold the cache's lock `name`; another holder is waited for up to `timeout` seconds.

    The kernel drops the lock when its holder dies, so a killed builder never blocks the next one.
    """
    folder = root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.lock"
    with path.open("a+") as file:
        deadline = time.monotonic() + timeout
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"{path}: another process has held the lock for {timeout:.0f} s; end it and run again"
                    ) from None
            if waiting and not told:
                file.seek(0)
                waiting(f"waiting for the build of process {file.read().strip() or '?'}")
                told = True
            time.sleep(LOCK_POLL_SECONDS)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


@contextlib.contextmanager
def placed(target: Path) -> Iterator[Path]:
    """Give an empty folder beside `target` that becomes `target` when the block ends without an error.

    The caller holds the lock for `target`; what an earlier, killed holder left behind is removed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(f".{target.name}.*"):
        shutil.rmtree(left)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield draft
        draft.chmod(0o755)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def drop_unused(folder: Path, keep: Path, *, days: float = 30) -> None:
    """Remove the entries of `folder` that nobody has used (touched) for `days`, except `keep`.

    Drafts stay: another process may be filling one, and what it unpacks there may give it an old date.
    """
    limit = time.time() - days * 86400
    for entry in folder.iterdir():
        if entry != keep and not entry.name.startswith(".") and entry.stat().st_mtime < limit:
            shutil.rmtree(entry, ignore_errors=True)

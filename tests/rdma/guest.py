"""Run one command in a guest of the host's own files, and bring back its status and its results.

The guest has no disk. It sees /usr, /etc, the interpreter and the checkout by 9p, so it runs the same sources
in the same environment; what it writes there stays in its memory. The folder /control is shared both ways.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tests.support.supervisor import Supervisor

from . import initramfs
from .following import DIED, TIMED_OUT, Ended, follow
from .here import RIG_DEVICES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.support.supervisor import Process

    from .kernel import Kernel
    from .tools import Tools

SCRIPTS = Path(__file__).parent
BOOT_SECONDS = 180.0
CONSOLE_LINES = 60
PATH = "/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin"
# Emulated, a page walk of five levels, and a second set of mappings for SMAP, cost a fifth of all time.
PROCESSOR = "max,-la57,-smap,-smep,-pku"
KERNEL_OPTIONS = "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on tsc=reliable audit=0"


@dataclass(frozen=True)
class Machine:
    """The parts of the guest.

    `environment` is an image of this process's virtual environment; `accelerator` is QEMU's: tcg (emulation),
    or kvm where that works.
    """

    kernel: Kernel
    tools: Tools
    environment: Path
    accelerator: str = "tcg,thread=multi"
    memory: str = "3G"
    processors: int = field(default_factory=lambda: min(4, os.cpu_count() or 1))


@dataclass(frozen=True)
class Share:
    """A folder of the guest, made of folders or of one disk image of the host, the uppermost first."""

    target: Path
    layers: tuple[Path, ...]


def shares(tools: Tools, checkout: Path, environment: Path) -> list[Share]:
    """Return the folders that the guest must see for `checkout` to run with this process's interpreter."""
    found = [Share(Path(f"/{name}"), (tools.folder / name, Path(f"/{name}"))) for name in ("usr", "etc")]
    for folder in (Path(sys.base_prefix).resolve(), checkout):
        if not any(folder.is_relative_to(share.target) for share in found):
            found.append(Share(folder, (folder,)))
    return [*found, Share(Path(sys.prefix), (environment,))]


def run(
    machine: Machine,
    command: Sequence[str],
    *,
    checkout: Path,
    environment: Mapping[str, str],
    timeout: float,
    results: Path,
    output: BinaryIO,
) -> Ended:
    """Boot, run `command` in `checkout`, copy its output to `output` as it comes.

    `timeout` is in seconds and includes the boot. What the command leaves in the folder `results`, which is
    empty in the guest unless the checkout has it, is brought back to the same folder here.
    """
    with Supervisor() as supervisor:
        control = supervisor.folder / "control"
        control.mkdir()
        seen = shares(machine.tools, checkout, machine.environment)
        _fill(control, seen, command, checkout, environment)
        (control / "results-folder").write_text(f"{results}\n")
        archive = supervisor.folder / "initramfs"
        _write_initramfs(archive, machine)
        words = qemu(machine, archive, control, seen)
        process = supervisor.spawn(words, name="qemu", env=machine.tools.environment)
        with (control / "output").open("rb") as source:
            ended = follow(
                source, output, lambda seconds: _status(process, control, seconds, timeout), timeout=timeout
            )
        if (control / "results").is_dir():
            shutil.copytree(control / "results", results, dirs_exist_ok=True)
        return ended


def _status(process: Process, control: Path, seconds: float, timeout: float) -> Ended | None:
    """How the guest ended, or None while all is well."""
    # Asked before the files: a guest that has written its status may be gone at any moment.
    running = process.poll() is None
    ended = (control / "status").exists()
    started = (control / "started").exists()
    if ended:
        code = int((control / "status").read_text())
        return Ended(code) if started else Ended(code, _trouble("has no network", control, process))
    if not running:
        return Ended(DIED, _trouble(f"died after {seconds:.0f} s", control, process))
    if not started and seconds > BOOT_SECONDS:
        return Ended(DIED, _trouble(f"had not booted after {seconds:.0f} s", control, process))
    if seconds > timeout:
        what = "runs" if started else "has not started"
        return Ended(
            TIMED_OUT, _trouble(f"was ended after {seconds:.0f} s; the command {what}", control, process)
        )
    return None


def _trouble(what: str, control: Path, process: Process) -> str:
    """Describe the guest's end, with the last lines of QEMU and its kernel."""
    console = control / "console"
    lines = console.read_text(errors="replace").splitlines() if console.exists() else []
    said = ["QEMU:", process.tail() or "(silent)", "Console:", *lines[-CONSOLE_LINES:]]
    return "\n".join([f"the guest {what}", *said])


def _fill(
    control: Path, seen: Sequence[Share], command: Sequence[str], checkout: Path, env: Mapping[str, str]
) -> None:
    lines = [f"{share.target}\t{' '.join(tags)}\n" for share, tags in zip(seen, _tags(seen), strict=True)]
    (control / "mounts").write_text("".join(lines))
    shutil.copy(SCRIPTS / "guest" / "start.sh", control)
    shutil.copy(SCRIPTS / "network.sh", control)
    own = {"PATH": f"{Path(sys.executable).parent}:{PATH}", "HOME": "/root", "HAWK_RDMA_DEVICES": RIG_DEVICES}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in {**env, **own}.items()]
    script = ["#!/bin/sh", *exports, f"cd {shlex.quote(str(checkout))} || exit 126", shlex.join(command)]
    (control / "command").write_text("\n".join(script) + "\n")
    (control / "command").chmod(0o755)
    (control / "output").touch()


def _tags(seen: Sequence[Share]) -> list[list[str]]:
    """The guest's name for each layer: a tag for a folder, its device for an image."""
    disks = iter("abcdefgh")
    return [
        [f"m{i}l{j}" if layer.is_dir() else f"vd{next(disks)}" for j, layer in enumerate(share.layers)]
        for i, share in enumerate(seen)
    ]


def _write_initramfs(path: Path, machine: Machine) -> None:
    files = {f"modules/{file.name}": file.read_bytes() for file in machine.kernel.modules}
    files["modules/order"] = "".join(f"{file.name}\n" for file in machine.kernel.modules).encode()
    files["init"] = (SCRIPTS / "guest" / "init.sh").read_bytes()
    files["busybox"] = machine.tools.program("busybox").read_bytes()
    with path.open("wb") as archive:
        initramfs.write(archive, files)


def qemu(machine: Machine, archive: Path, control: Path, seen: Sequence[Share]) -> list[str]:
    """Return QEMU's command line."""
    words = [str(machine.tools.program("qemu-system-x86_64")), "-nodefaults", "-no-user-config"]
    words += ["-nographic", "-no-reboot", "-machine", "q35", "-accel", machine.accelerator, "-cpu", PROCESSOR]
    words += ["-smp", str(machine.processors), "-m", machine.memory, "-device", "virtio-rng-pci"]
    words += ["-kernel", str(machine.kernel.image), "-initrd", str(archive), "-append", KERNEL_OPTIONS]
    words += ["-serial", f"file:{_quoted(control / 'console')}"]
    words += _nine("control", control, "")
    for share, tags in zip(seen, _tags(seen), strict=True):
        for tag, layer in zip(tags, share.layers, strict=True):
            words += _nine(tag, layer, ",readonly=on") if layer.is_dir() else _disk(tag, layer)
    return words


def _nine(tag: str, folder: Path, options: str) -> list[str]:
    source = f"local,id={tag},path={_quoted(folder)},security_model=none,multidevs=remap{options}"
    return ["-fsdev", source, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def _disk(tag: str, image: Path) -> list[str]:
    source = f"if=none,id={tag},file={_quoted(image)},format=raw,readonly=on"
    return ["-drive", source, "-device", f"virtio-blk-pci,drive={tag}"]


def _quoted(path: Path) -> str:
    """QEMU's options are lists with commas."""
    return str(path).replace(",", ",,")

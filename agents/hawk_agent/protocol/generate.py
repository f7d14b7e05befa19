"""Make the protobuf modules beside their .proto files: `python -m hawk_agent.protocol.generate [--check]`.

Needs grpcio-tools and mypy-protobuf (development only). With --check nothing is written, and the exit
status is 1 when a generated file differs from what the sources give.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = ("common", "device_plugin", "engine", "peer")
SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


def _generate(into: Path) -> dict[str, bytes]:
    """Run the compiler into a folder; returns file name -> content."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={ROOT}"]
    command += [f"--python_out={into}", f"--grpc_python_out={into}"]
    command += [f"--mypy_out=quiet:{into}", f"--mypy_grpc_out=quiet:{into}"]
    command += [
        f"--plugin={name}={Path(sys.executable).parent / name}"
        for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")
    ]
    command += [f"hawk_agent/protocol/{name}.proto" for name in SOURCES]
    subprocess.run(command, check=True, timeout=120)
    made = into / "hawk_agent" / "protocol"
    return {path.name: path.read_bytes() for path in sorted(made.iterdir()) if _wanted(path.name)}


def _wanted(name: str) -> bool:
    """Only the peer protocol has a service; the empty stubs of the others are not kept."""
    return name.endswith(SUFFIXES) and ("_grpc" not in name or name.startswith("peer"))


def main(arguments: list[str]) -> int:
    """Write the files, or compare them."""
    with tempfile.TemporaryDirectory() as folder:
        files = _generate(Path(folder))
    if "--check" not in arguments:
        for name, content in files.items():
            (HERE / name).write_bytes(content)
        return 0
    stale = [name for name, content in files.items() if _current(HERE / name) != content]
    for name in stale:
        print(f"error: {name}: not what its .proto gives; run python -m hawk_agent.protocol.generate")
    return 1 if stale else 0


def _current(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

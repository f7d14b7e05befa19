from typing import Any

def paths() -> tuple[str, ...]: ...
def copy(
    path: str,
    programs: Any,
    source: Any,
    destination: Any,
    source_table: Any,
    destination_table: Any,
    source_page: int,
    destination_page: int,
    stream: bool,
    key: tuple[int, int, int],
    /,
) -> int: ...
def part(
    path: str,
    programs: Any,
    source: Any,
    destination: Any,
    source_table: Any,
    destination_table: Any,
    source_page: int,
    destination_page: int,
    start: int,
    stop: int,
    packing: bool,
    stream: bool,
    /,
) -> None: ...
def fill(programs: Any, destination: Any, table: Any, page: int, /) -> None: ...
def digest(
    path: str,
    programs: Any,
    buffer: Any,
    table: Any,
    page: int,
    destination: bool,
    key: tuple[int, int, int],
    sample: tuple[int, int, int],
    /,
) -> int: ...
def plain(path: str, source: Any, destination: Any, stream: bool, /) -> None: ...

"""Element types that move as whole bytes."""

from hawk_agent.layouts.errors import LayoutError

BYTES: dict[str, int] = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int8": 1,
    "uint8": 1,
    "float8": 1,
    "float8_e4m3": 1,
    "float8_e5m2": 1,
}

_PACKED = ("int4", "uint4", "float4", "float4_e2m1", "int2", "nf4")


def itemsize(dtype: str) -> int:
    """Bytes of one element of `dtype`.

    Raises:
        LayoutError: the type is unknown, or packs several elements into one byte, so that a
            translation would have to split bytes instead of moving them.
    """
    if dtype in BYTES:
        return BYTES[dtype]
    if dtype in _PACKED:
        raise LayoutError(
            f"dtype: {dtype} packs several elements into one byte, and only whole bytes move; "
            "declare pairs as one int8 element along an axis that no tile or head split cuts"
        )
    raise LayoutError(f"dtype: unknown element type {dtype!r}; use one of {', '.join(BYTES)}")

"""The digest: a sum that no translation changes and every slip does.

Each token's features are taken in units (words of 8 bytes, the last filled up with zeros; smaller
where a pair cuts words in a way that nothing joins, see `compiler.unit`), and each unit counts by
its place in *logical* order. The digest is the sum over all units, modulo 2**64, of

    (low(m) + low(k)) · (high(m) + high(k))        low, high: the 32-bit halves; the sums modulo 2**32

where m is the unit and k = K(place) comes from a key that both sides drew for this transfer. This is
the NH family of universal hashes with one key word a place: whatever the two contents are, they agree with
odds of about 2**-32. A sum doesn't care for order, so source and destination may be walked in
whatever order suits them, in chunks, and the chunks' digests add up. A swapped head is two contents
at each other's places, a stale block is another content at a place, a lost chunk is a term that is
missing: all change the sum.

This module is the definition, in numpy; the C kernel computes the same while it copies.
"""

import numpy as np
import numpy.typing as npt

MASK = (1 << 64) - 1
_C1, _C2 = 0x9E3779B1, 0x85EBCA77

Words = npt.NDArray[np.uint64]


def key_words(key: int) -> tuple[int, int]:
    """The two key words that a 64-bit key stands for."""
    return _mix(key & MASK), _mix((key ^ 0x6A09E667F3BCC909) & MASK)


def _mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def place_keys(places: Words, key: int) -> Words:
    """K(place) for an array of places, counted in units."""
    first, second = (np.uint64(word) for word in key_words(key))
    x = places + first
    x = _round(x, _C1) ^ second
    return _round(x, _C2)


def _round(x: Words, constant: int) -> Words:
    low = x & np.uint64(0xFFFFFFFF)
    return low * np.uint64(constant) + ((x << np.uint64(32)) | (x >> np.uint64(32)))


def hash_units(units: Words, places: Words, key: int) -> int:
    """The digest of units at their places; arrays of one shape."""
    low_mask = np.uint64(0xFFFFFFFF)
    keys = place_keys(places, key)
    low = (units + keys) & low_mask
    high = ((units >> np.uint64(32)) + (keys >> np.uint64(32))) & low_mask
    return int(np.sum(low * high, dtype=np.uint64))


def picks(stripes: int, sample: int, key: int, salt: int) -> npt.NDArray[np.int64]:
    """The stripes that a sampled digest takes: one of every `sample` neighbours, chosen by the key."""
    groups = np.arange(-(-stripes // sample), dtype=np.uint64)
    chance = place_keys(groups + np.uint64((salt << 40) & MASK), key ^ MASK) >> np.uint64(32)
    chosen = groups.astype(np.int64) * sample + (chance % np.uint64(sample)).astype(np.int64)
    return np.minimum(chosen, stripes - 1)

"""FNV-1a, 64 bit: the hash that eidex names for its ring, and the finaliser that a ring needs on top of it.

Rules
- `fnv1a64` is exact for every input (vectors: Go's hash/fnv). In pure Python it costs about 60 us per KiB; the loop takes
  four bytes a turn and cuts to 64 bits once, since xor touches the low byte only.
- FNV-1a does not avalanche: inputs that differ in their last byte land side by side. `spread` (murmur3's fmix64) mends it.

It must not know: what is hashed.
"""

from __future__ import annotations

OFFSET = 0xCBF29CE484222325
PRIME = 0x100000001B3
MASK = (1 << 64) - 1


def fnv1a64(data: bytes) -> int:
    """FNV-1a of `data`, 0 <= value < 2**64."""
    value = OFFSET
    prime = PRIME
    byte = iter(data)
    for one, two, three, four in zip(byte, byte, byte, byte, strict=False):
        value = ((((((((value ^ one) * prime) ^ two) * prime) ^ three) * prime) ^ four) * prime) & MASK
    for last in data[len(data) & ~3 :]:
        value = ((value ^ last) * prime) & MASK
    return value


def spread(value: int) -> int:
    """A bijection of 64-bit numbers in which every bit of the input moves half of the output."""
    value ^= value >> 33
    value = (value * 0xFF51AFD7ED558CCD) & MASK
    value ^= value >> 33
    value = (value * 0xC4CEB9FE1A85EC53) & MASK
    return value ^ (value >> 33)

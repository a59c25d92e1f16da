"""FNV-1a 64 against vectors made with Go's hash/fnv (systemone facts 7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.rules.fnv import MASK, OFFSET, PRIME, fnv1a64, spread

VECTORS = [
    (b"", 0xCBF29CE484222325),
    (b"a", 0xAF63DC4C8601EC8C),
    (b"foobar", 0x85944171F73967E8),
    (b"hello", 0xA430D84680AABD0B),
    (b'"hello"', 0xDCDD4BA1EC7623EB),
    (b"Hello, World!", 0x6EF05BD7CC857C54),
    (b"dex", 0xCA9A3018F4620A2E),
    (b"<state-token>", 0x153FDE7FE066D91A),
    (b"I was charged twice. Please help.", 0xE334ABBC19AA4CD2),
    ("ü".encode(), 0x0AC20A07B71807EA),
    ("Grüße".encode(), 0x20E72E11E324B0B8),
    ('"Grüße"'.encode(), 0x29D2371304A9F0EE),
    (rb'"Gr\u00fc\u00dfe"', 0x27B0A7BA94C6847A),
    ("Grüße, Welt!".encode(), 0x725FB9F06B957C2F),
    ("日本語のテスト".encode(), 0x265A416658B06B5B),
    ("🙂".encode(), 0xFF026B387504E24B),
    (b"line1\nline2", 0xEF73246D2FDDB7D0),
    (b"{}", 0x08F44B07B5901A25),
    (b"[]", 0x09612B07B5ECB5A5),
    (b"null", 0x5B9BC4BA528108E4),
    (b'{"a":1}', 0x9C3E82DD6FCAE8B1),
    (b'{"a": 1}', 0xC7F7C344ACD8995F),
    (b'{"plan":"pro","ticket":"I was charged twice"}', 0x9FA797D94B5FAA33),
    (b"x" * 1000, 0xE1ADD1D93134D2C5),
    (bytes(range(256)), 0x4242DC5249C33625),
    (b"http://worker1:8000#0", 0x3DF5F2C363A98D9D),
    (b"http://worker1:8000#1", 0x3DF5F1C363A98BEA),
    (b"doc-1", 0x42D4E5AB72FC8A9B),
    (b"doc-2", 0x42D4E6AB72FC8C4E),
    (b"doc-3", 0x42D4E7AB72FC8E01),
]


@pytest.mark.parametrize(("data", "value"), VECTORS, ids=[repr(data[:24]) for data, _ in VECTORS])
def test_vectors(data: bytes, value: int) -> None:
    """Each vector of the table, to the bit."""
    assert fnv1a64(data) == value


@given(st.binary(max_size=300))
def test_equals_the_definition(data: bytes) -> None:
    """Four bytes a turn are the same as one."""
    value = OFFSET
    for byte in data:
        value = ((value ^ byte) * PRIME) & MASK
    assert fnv1a64(data) == value


def test_it_is_not_fnv1() -> None:
    """The trap of the facts: FNV-1 of "a" is another number."""
    assert fnv1a64(b"a") != 0xAF63BD4C8601B7BE


def test_the_finaliser_parts_neighbours() -> None:
    """doc-1, doc-2, doc-3 lie side by side in FNV-1a and far apart after `spread`; `spread` collides nowhere."""
    raw = [fnv1a64(b"doc-%d" % n) for n in range(1000)]
    assert len({value >> 56 for value in raw[:9]}) == 1
    spreaded = {spread(value) for value in raw}
    assert len(spreaded) == 1000
    assert len({value >> 56 for value in spreaded}) > 240

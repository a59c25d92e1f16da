"""Tokens and buckets, without a clock."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.rules.access import Bucket, digest_of, hashed, which

RATES = st.floats(0.01, 10_000, allow_nan=False)
GAPS = st.lists(st.floats(0, 20, allow_nan=False), min_size=1, max_size=200)


def test_a_token_is_known_by_its_text_or_by_its_digest() -> None:
    """Both ways of writing mean the same secret; case of the hex does not matter."""
    digest = hashlib.sha256(b"s3cret").hexdigest()
    assert digest_of("s3cret") == digest_of(f"sha256:{digest}") == digest_of(f"sha256:{digest.upper()}")
    assert hashed(b"s3cret") == digest_of("s3cret")
    assert digest_of(digest) != digest_of("s3cret")


def test_bad_hex_is_an_error() -> None:
    """The settings refuse it before; nobody gets in by it."""
    with pytest.raises(ValueError, match="hex"):
        digest_of("sha256:zz")


@pytest.mark.parametrize(("presented", "place"), [(b"a", 0), (b"b", 1), (b"c", None), (b"", None), (b"A", None)])
def test_which_of_the_known_tokens(presented: bytes, place: int | None) -> None:
    assert which(hashed(presented), [digest_of("a"), digest_of("b")]) == place


def test_any_form_of_key_is_a_key() -> None:
    """Article 5.2: sk-prod-... was locked out by a rule for the form; bytes of any kind are compared as they are."""
    for text in ("sk-prod-" + "x" * 20, "x", "a b", "\u00e9"):
        assert which(hashed(text.encode()), [digest_of(text)]) == 0


def test_a_burst_and_then_the_rate() -> None:
    """Five at once, then one every half second."""
    bucket = Bucket(2.0, 5)
    assert [bucket.take(100.0) for _ in range(5)] == [0.0] * 5
    assert bucket.take(100.0) == pytest.approx(0.5)
    assert bucket.take(100.4) == pytest.approx(0.1)
    assert bucket.take(100.5) == 0.0
    assert bucket.take(100.5) > 0


@pytest.mark.parametrize(("rate", "burst"), [(0.1, 1), (1.0, 1), (1.5, 2), (50.0, 50)])
def test_the_burst_is_one_second_of_rate_when_none_is_given(rate: float, burst: int) -> None:
    assert Bucket(rate).burst == burst


def test_what_is_refused_is_not_counted() -> None:
    """A caller that hammers at 1000/s still gets its 10/s."""
    bucket = Bucket(10.0, 1)
    assert sum(bucket.take(step / 1000) == 0.0 for step in range(10_000)) == pytest.approx(100, abs=1)


@given(RATES, st.integers(1, 100), GAPS)
def test_never_more_than_burst_and_rate_allow(rate: float, burst: int, gaps: list[float]) -> None:
    """In any stretch of time at most burst + rate x seconds are granted."""
    bucket, now, granted = Bucket(rate, burst), 0.0, []
    for gap in gaps:
        now += gap
        if bucket.take(now) == 0.0:
            granted.append(now)
    for first in range(len(granted)):
        for last in range(first, len(granted)):
            assert last - first + 1 <= burst + rate * (granted[last] - granted[first]) * (1 + 1e-6) + 1e-3


@given(RATES, st.integers(1, 100), GAPS)
def test_the_wait_that_is_told_is_enough_and_not_too_long(rate: float, burst: int, gaps: list[float]) -> None:
    """Who waits as long as it was told is granted, and the wait is never longer than one request's share."""
    bucket, now = Bucket(rate, burst), 0.0
    for gap in gaps:
        now += gap
        wait = bucket.take(now)
        assert 0.0 <= wait <= 1 / rate + 1e-6
        if wait:
            now += wait
            assert bucket.take(now) == 0.0


@given(RATES, st.integers(1, 100), st.floats(0, 1e8))
def test_an_idle_bucket_is_full(rate: float, burst: int, start: float) -> None:
    """After a long rest the whole burst is there, and not one more."""
    bucket = Bucket(rate, burst)
    for _ in range(burst):
        bucket.take(start)
    rested = start + 2 * burst / rate + 1
    assert all(bucket.take(rested) == 0.0 for _ in range(burst))
    assert bucket.take(rested) > 0.0

"""Where backends are looked for."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from autohedge.settings.load import load_text
from autohedge.settings.sources import DnsSource, Sources


def test_the_defaults_are_the_seed_s() -> None:
    """R11: names are asked every 30 s; a file every 2 s, where one is followed."""
    sources = Sources()
    assert (sources.dns.interval, sources.dns.confirm, sources.dns.family) == (30.0, 3, "auto")
    assert (sources.file.path, sources.file.interval) == ("", 2.0)


def test_a_family_that_does_not_exist_names_those_that_do() -> None:
    with pytest.raises(ValidationError, match="one of auto, ipv4, ipv6, both"):
        DnsSource.model_validate({"family": "ipv5"})


def test_only_backends_that_say_so_are_resolved() -> None:
    """A backend is reported by one source: with its fixed addresses, or by what stands behind its name."""
    text = "upstream_registry: {fixed: {host: a}, named: {host: b, resolve: true}}\n"
    settings = load_text(text, "c.yaml", {}, str).settings
    assert [spec.name for spec in settings.backends()] == ["fixed"]
    assert [spec.name for spec in settings.backends(resolve=True)] == ["named"]

"""The closed family of our own errors: one status each, nothing lost on the way out of another process."""

from __future__ import annotations

import copy
import pickle

import pytest

from autohedge.core.problems import (
    CODES,
    BadRequest,
    Detail,
    Forbidden,
    NotFound,
    Problem,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unprocessable,
    Unsupported,
    by_status,
    gathered,
)

FAMILY = Problem.__subclasses__()


@pytest.mark.parametrize("kind", FAMILY, ids=lambda kind: kind.__name__)
def test_each_has_a_documented_code_of_its_own(kind: type[Problem]) -> None:
    """A class fixes status and type; its usual code stands in the table."""
    problem = kind("said")
    assert problem.code == kind.default_code
    assert problem.code in CODES
    assert (problem.status >= 500) == (kind.type in {"server_error", "overloaded_error"})
    assert str(problem) == "said"


def test_no_two_share_a_status() -> None:
    statuses = [kind.status for kind in FAMILY]
    assert len(statuses) == len(set(statuses))


def test_a_problem_crosses_a_process_border_whole() -> None:
    """The examiner's helper raises them: every field arrives."""
    problem = Unavailable(
        "said",
        code="queue_full",
        param="model",
        details=[Detail("model", "x", "y", {"a": 1}, 5, "z")],
        retry_after=2.5,
        headers=[(b"a", b"b")],
    )
    for other in (pickle.loads(pickle.dumps(problem)), copy.copy(problem)):
        assert type(other) is Unavailable
        assert vars(other) == vars(problem)


def test_a_detail_shows_no_empty_fields() -> None:
    assert Detail(None, "c", "m").shown() == {"param": None, "code": "c", "message": "m"}
    assert "steps" not in Detail("p", "c", "m", steps=("p",)).shown()  # told step by step at one door only
    assert Detail("p", "c", "m", 0, 5, "s").shown() == {
        "param": "p",
        "code": "c",
        "message": "m",
        "value": 0,
        "limit": 5,
        "source": "s",
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequest),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (413, TooLarge),
        (415, Unsupported),
        (418, BadRequest),
        (502, BadRequest),
    ],
)
def test_the_problem_of_a_status(status: int, kind: type[Problem]) -> None:
    """B104: what stands for a foreign page of HTML; a 5xx is never a client's."""
    assert by_status(status) is kind


def test_all_findings_are_one_400() -> None:
    """The first one's sentence leads, the others are counted and listed."""
    one, two = Detail("a", "limit_exceeded", "first"), Detail("b", "invalid_value", "second")
    problem = gathered([one, two])
    assert (problem.message, problem.code, problem.param) == ("first (and 1 more)", "limit_exceeded", "a")
    assert problem.details == (one, two)
    assert gathered([one]).message == "first"


def test_a_content_type_that_nobody_reads_is_a_415() -> None:
    assert type(gathered([Detail("content-type", "unsupported_media_type", "m")])) is Unsupported
    assert type(gathered([Detail("model", "invalid_type", "m")])) is BadRequest


def test_a_422_is_a_bad_request_in_another_number() -> None:
    """System One clients of TypeSafe know 422; everything else that holds of a 400 holds of it."""
    assert issubclass(Unprocessable, BadRequest)
    assert (Unprocessable("m").status, Unprocessable("m").type) == (422, BadRequest.type)

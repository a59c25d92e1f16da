"""Two AutoHedges that have each other as workers: no request goes round."""

from __future__ import annotations

import pytest

from tests.support.canned import Canned
from tests.support.house import SERVER, TIMES, Edge, house, run

DECIDE = "/v1/systemone"
ASKED = {"model": "dex", "questions": {"q": {"type": "noul", "instructions": "?"}}}
EMPTY = SERVER + TIMES + "mode: eidex\nprobe: {enabled: false}\nrouting: {retry: 3}\n"


async def know_each_other(one: Edge, two: Edge) -> None:
    for here, there in ((one, two), (two, one)):
        assert (await here.post({"url": there.url, "model_id": "dex"}, "/workers")).status == 202


@pytest.mark.parametrize("document", range(8))
def test_a_request_that_comes_back_is_answered_by_somebody_else(document: int) -> None:
    """Whatever document: the real worker answers, once, and each AutoHedge is asked twice at most."""

    async def main() -> None:
        worker = Canned()
        async with house(EMPTY, worker=worker.engine) as one, house(EMPTY) as two:
            await know_each_other(one, two)
            assert (await one.post({"url": worker.url, "model_id": "dex"}, "/workers")).status == 202
            heard = await one.post(ASKED | {"state": f"document {document}"}, DECIDE)
            assert (heard.status, len(worker.requests)) == (200, 1)
            assert sum(len(edge.verdicts()) for edge in (one, two)) <= 3

    run(main())


def test_where_nobody_else_is_there_the_caller_is_told_at_once() -> None:
    """A 502 as for any worker that fails; before, the two sent it to each other until its time was over."""

    async def main() -> None:
        async with house(EMPTY) as one, house(EMPTY) as two:
            await know_each_other(one, two)
            heard = await one.post(ASKED | {"state": "x"}, DECIDE)
            assert (heard.status, heard.error["code"]) == (502, "workers_unreachable")
            assert sum(len(edge.verdicts()) for edge in (one, two)) == 2

    run(main())

"""Settings of the System One door's way: who is asked first, for how long, how often again, and the name in the answer.

Rules: the keys and defaults of eidex's `routing` section stand as they are in its file; `bounded_load` and `affinity` beside them.

It must not know: the ring, or how an answer is rewritten.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from autohedge.settings.durations import Duration
from autohedge.settings.scalars import AtLeastOne, Flag, NotNegative, Number, PositiveDuration, one_of
from autohedge.settings.section import Section


def _off_is_zero(value: object) -> object:
    return 0.0 if value is False or (isinstance(value, str) and value.lower() in {"off", "false", "no"}) else value


def _off_is_off(value: object) -> object:
    return "off" if value is False or (isinstance(value, str) and value.lower() in {"false", "no"}) else value


PolicyName = Annotated[str, one_of("state_hash", "round_robin", "least_outstanding")]
AffinityName = Annotated[str, one_of("off", "prefix"), BeforeValidator(_off_is_off)]
Nodes = Annotated[
    AtLeastOne, AfterValidator(lambda nodes: min(nodes, 1000))
]  # eidex knows no bound; more changes nothing
Bound = Annotated[Number, BeforeValidator(_off_is_zero)]


class ModelOverride(Section):
    """The name that stands in an answer of /v1/systemone."""

    enabled: Flag = Field(
        default=True,
        description="Whether the top-level model of an answer is replaced; false passes answers on as they are.",
    )
    model: str = Field(default="", description="The name put in; empty is the model of the request.")


class Routing(Section):
    """Which worker gets a request of the System One door; the ring may serve chats as well."""

    policy: PolicyName = Field(
        default="state_hash",
        description="state_hash (one document, one worker), round_robin or least_outstanding; for /v1/systemone.",
    )
    virtual_nodes: Nodes = Field(
        default=100, description="Virtual nodes of a worker on the ring; over 1000 count as 1000."
    )
    bounded_load: Bound = Field(
        default=1.25,
        description="A worker with more than so many times the mean of requests in flight is passed over; 0 or off: never.",
    )
    request_timeout: PositiveDuration = Field(
        default=Duration.of("300s"),
        description="For one attempt at /v1/systemone, in place of the first_byte and stall times.",
    )
    retry: NotNegative = Field(
        default=1, description="Further workers that a request of /v1/systemone may try; 0 tries one only."
    )
    model_override: ModelOverride = Field(default=ModelOverride(), description="The model that answers name.")
    affinity: AffinityName = Field(
        default="off",
        description="prefix: chats with the same system text and first user message go to one replica, whose KV cache they hit.",
    )

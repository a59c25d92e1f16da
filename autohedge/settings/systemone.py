"""What the System One door checks before a worker sees a request.

What it decides: the shape of `systemone`, and the limits of a request that an operator may set, for all models here and for
one backend's in `model_limits`. What is not set is not limited, beyond what is usual for the kind of server.

It must not know: how a request is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated

from pydantic import BeforeValidator, Field

from autohedge.core.types import Fact, Rank
from autohedge.settings.scalars import AtLeastOne, Flag
from autohedge.settings.section import Section

STATUSES = {"400": 400, "422": 422}


def _status(value: object) -> object:
    known = STATUSES.get(str(value))
    if known is None:
        raise ValueError("must be 400 or 422")
    return known


class DecisionLimits(Section):
    """What a System One request may hold."""

    max_questions: AtLeastOne | None = Field(default=None, description="System One: most questions in one request.")
    min_options: AtLeastOne | None = Field(default=None, description="System One: fewest options of a choice.")
    max_options: AtLeastOne | None = Field(default=None, description="System One: most options of a choice.")
    min_levels: AtLeastOne | None = Field(default=None, description="System One: fewest levels of a score.")
    max_levels: AtLeastOne | None = Field(default=None, description="System One: most levels of a score.")
    max_images: AtLeastOne | None = Field(default=None, description="System One: most images.")
    max_state_bytes: AtLeastOne | None = Field(default=None, description="System One: largest state, in UTF-8 bytes.")
    max_body_bytes: AtLeastOne | None = Field(
        default=None, description="System One: largest body, uncompressed, in bytes."
    )

    def counted(self, source: Callable[[str], str]) -> Mapping[str, Fact[int]]:
        """What is set, by name, with its origin; `source` gives the sentence for a key."""
        values = {name: getattr(self, name) for name in DecisionLimits.model_fields}
        return {name: Fact(value, source(name), Rank.CONFIG) for name, value in values.items() if value is not None}


with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # pydantic's own `validate` is an old name that nobody here calls

    class SystemOne(Section):
        validate: Flag = Field(  # type: ignore[assignment]
            default=True,
            description="on refuses what no worker could answer, with every finding; off looks at nothing, as eidex.",
        )
        validation_status: Annotated[int, BeforeValidator(_status)] = Field(
            default=400, description="Status of such a refusal: 400, or 422 as TypeSafe and SGLang answer."
        )
        max_depth: AtLeastOne = Field(
            default=64, description="Deepest body, in levels, for servers of unknown make; known ones have their own."
        )
        limits: DecisionLimits = Field(default=DecisionLimits(), description="Limits for every model.")

        @cached_property
        def counts(self) -> Mapping[str, Fact[int]]:
            """The limits for every model, by name."""
            return self.limits.counted(lambda key: f"systemone.limits.{key}")

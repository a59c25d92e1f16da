"""The base of every part of the settings: frozen, strict, no unknown keys.

Rule: a key with nothing after it ("server:" with everything below it commented out) means the default, not an error.

It must not know: which settings exist.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """A mapping of the configuration file. Raises pydantic's ValidationError; `checking.py` turns that into ConfigErrors."""

    also_known: ClassVar[tuple[str, ...]] = ()  # keys that the file may use here although they are no fields

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        protected_namespaces=(),
        hide_input_in_errors=True,
        validate_default=False,
    )

    @model_validator(mode="before")
    @classmethod
    def _blanks_are_defaults(cls, data: Any) -> Any:
        if data is None:
            return {}
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data

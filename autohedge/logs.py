"""Log lines: text for people, or one JSON object per line for whoever collects them (`server.log_format`; eidex writes JSON).

A line that has fields of its own brings them along (`extra={"fields": {...}}`); in JSON they stand beside `msg`, and may replace it.
The access log is JSON in any case and goes its own way (doors/access_log.py).

It must not know: what is told.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": "WARN" if record.levelname == "WARNING" else record.levelname,
            "msg": record.getMessage(),
            "logger": record.name,
        }
        told |= getattr(record, "fields", None) or {}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


def begin() -> None:
    """Text on standard error, until the settings are known."""
    logging.basicConfig(level=logging.INFO, format=TEXT)


def written_as(form: str) -> None:
    """From now on as `server.log_format` says: text or json."""
    formatter = JsonLines() if form == "json" else logging.Formatter(TEXT)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter)

"""Logs: one line an event, JSON by default, with the object's namespace, name and generation as fields."""

from __future__ import annotations

import json
import logging
from typing import Any


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The fields a caller gave as `extra={"fields": {...}}`, without empty ones."""
    fields: dict[str, Any] = getattr(record, "fields", {})
    return {name: value for name, value in fields.items() if value not in (None, "", ())}


class JsonFormatter(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        entry: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= fields_of(record)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


class TextFormatter(logging.Formatter):
    """A record for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with the fields behind the message."""
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7} {record.getMessage()}"
        fields = " ".join(f"{name}={value}" for name, value in fields_of(record).items())
        line = f"{line} {fields}" if fields else line
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_logging(log_format: str, level: str) -> None:
    """Set up the root logger; kopf's own chatter starts at warnings."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("kopf", "aiohttp.access"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))

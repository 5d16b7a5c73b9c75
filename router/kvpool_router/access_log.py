"""One JSON line per request on standard output, and JSON lines for events on standard error.

The fields of a request line are those of `Record`, plus time, namespace and group; they are stable.
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TextIO

from kvpool_router.config import Config


@dataclass(slots=True)
class Record:
    """What one request came to; filled in while it runs."""

    request_id: str
    method: str
    path: str
    status: int = 0
    outcome: str = ""  # "ok", "engine_error" (its status passed on), a RouterError's reason, "broken", "client_gone"
    prefill: str | None = None
    decode: str | None = None
    pairing: str | None = None
    computed_alone: str | None = None
    retries: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # queue, prefill, first_byte, total
    detail: str | None = None


class AccessLog:
    """Writes records of one router."""

    def __init__(self, config: Config, stream: TextIO | None = None) -> None:
        self._common = {"namespace": config.namespace, "group": config.group}
        self._stream = sys.stdout if stream is None else stream

    def write(self, record: Record) -> None:
        """One line, flushed; a closed pipe must not fail a request."""
        line: dict[str, Any] = {"time": _now(), **self._common, "request_id": record.request_id}
        line |= {"method": record.method, "path": record.path, "status": record.status, "outcome": record.outcome}
        line |= {"prefill": record.prefill, "decode": record.decode, "pairing": record.pairing}
        line |= {"computed_alone": record.computed_alone, "retries": record.retries}
        line |= {"bytes_in": record.bytes_in, "bytes_out": record.bytes_out}
        line["seconds"] = {phase: round(value, 6) for phase, value in record.seconds.items()}
        line["detail"] = record.detail
        try:
            self._stream.write(json.dumps({key: value for key, value in line.items() if value is not None}) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _now(), "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure_events() -> None:
    """Route Python's logging to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

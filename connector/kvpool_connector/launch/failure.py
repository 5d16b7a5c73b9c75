"""How a start fails: in one line that a person can act on."""

from __future__ import annotations

import sys
from pathlib import Path

TERMINATION_LOG = Path("/dev/termination-log")
_LIMIT = 4000  # Kubernetes keeps 4096 bytes


class LaunchError(Exception):
    """The engine cannot start; the message says why and what to do."""


def report(message: str, log: Path = TERMINATION_LOG) -> None:
    """Say it on stderr and, in a container, in the termination message."""
    print(f"kvpool-launch: {message}", file=sys.stderr, flush=True)
    try:
        if log.exists():
            log.write_text(" ".join(message.split())[:_LIMIT], encoding="utf-8")
    except OSError as error:
        print(f"kvpool-launch: {log}: {error}", file=sys.stderr, flush=True)

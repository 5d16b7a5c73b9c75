"""What discovery asks of an API server, and the one answer of it that has a meaning of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol


class Expired(Exception):
    """The watch's resourceVersion is too old (410): list again."""


class SliceSource(Protocol):
    """The API server as discovery needs it; dicts in the wire's own shape."""

    async def list(self) -> tuple[list[dict[str, Any]], str]:
        """All slices of the group and the list's resourceVersion."""

    def watch(self, resource_version: str) -> AsyncIterator[dict[str, Any]]:
        """Watch events after `resource_version` until the server ends the watch; raises Expired on 410."""

"""What the worker asks of a store, and the few answers that matter to it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kvpool_connector.segments import Region


class Outcome(enum.Enum):
    """How one key fared in a put or get."""

    OK = "ok"
    MISS = "miss"
    FULL = "full"
    FAILED = "failed"
    UNREACHABLE = "unreachable"


class StoreUnavailable(Exception):
    """The store cannot be asked at all; says why."""


@dataclass(frozen=True)
class Transfer:
    """One object and the pieces of memory it is read from or written to."""

    key: str
    addresses: list[int]
    sizes: list[int]


class Backend(Protocol):
    """A store client. Calls may come from several threads; each may raise StoreUnavailable."""

    name: str

    def setup(self, regions: Sequence[Region]) -> None:
        """Join the store and register the memory; may take long. Called again after it failed."""

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Which of the keys can be read."""

    def put(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        """Store objects. A key that is there keeps its bytes and counts as OK."""

    def get(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        """Fill memory from objects."""

    def health(self) -> bool:
        """Whether the store answers now."""

    def remove(self, keys: Sequence[str]) -> None:
        """Forget objects; unknown keys are no error."""

    def close(self) -> None:
        """Leave the store, so that peers see our segment go at once."""

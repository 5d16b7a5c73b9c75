"""The few things the connector needs of a device."""

from __future__ import annotations

from typing import Protocol


class Event(Protocol):
    """A point in the device's work."""

    def synchronize(self) -> None:
        """Return when the work before this point is done."""


class Device(Protocol):
    """One rank's device."""

    kind: str  # goes into the key namespace: blocks of different kinds are never mixed
    host_memory: bool  # whether the CPU can copy from the KV cache

    def bind_thread(self) -> None:
        """Make this device current in the calling thread."""

    def record(self) -> Event:
        """Mark the work given to the device so far."""

    def synchronize(self) -> None:
        """Wait for all work given to the device so far."""

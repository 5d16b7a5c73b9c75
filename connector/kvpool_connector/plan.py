"""What the scheduler side tells the workers for one step. Plain values: they travel between processes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Load:
    """Blocks of one request to fill from the pool."""

    request_id: str
    hashes: list[bytes]
    blocks: list[int]
    is_async: bool


@dataclass
class Save:
    """Blocks of one request that are complete when this step has run."""

    request_id: str
    hashes: list[bytes]
    blocks: list[int]


@dataclass
class StepPlan:
    """One step's work."""

    step: int
    # The newest step of which the scheduler knows that loads failed, and has planned accordingly.
    acknowledged: int
    loads: list[Load] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    # Blocks handed out anew: whatever they held is about to be overwritten.
    reused: list[int] = field(default_factory=list)

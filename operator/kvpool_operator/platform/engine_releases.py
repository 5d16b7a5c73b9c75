"""Engine releases: which vLLM line an image carries and which connectors work on it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class EngineRelease:
    """One line of vLLM, with vllm-ascend of the same number where that exists."""

    version: str
    connectors: frozenset[str]
    ascend: bool
    """vllm-ascend exists for this line, so it can run on NPUs."""
    source: str


_ROWS = (
    EngineRelease("0.23.0", frozenset({"Native", "AscendStore"}), True, "vllm-ascend 0.23.0.post1, stable"),
    EngineRelease("0.30.0", frozenset({"Native", "AscendStore"}), True, "vllm-ascend 0.30.0rc2"),
    EngineRelease("0.32.0", frozenset({"Native"}), False, "vLLM 0.32.0; no vllm-ascend of this line yet"),
)

ENGINE_RELEASES = MappingProxyType({row.version: row for row in _ROWS})

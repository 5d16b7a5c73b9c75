"""Mooncake releases that kvpool knows: the image that goes with each and what changed for an operator.

The flags kvpool renders exist in every row below; a release that drops one gets its own column here, because an
unknown flag ends the master at once (exit 1, a crash loop).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class MooncakeRelease:
    """One release of the store."""

    version: str
    image: str
    flags: frozenset[str]
    """Flags of mooncake_master that kvpool may pass."""
    source: str


_MASTER_FLAGS = frozenset(
    {
        "rpc_address",
        "rpc_port",
        "metrics_port",
        "rpc_thread_num",
        "eviction_high_watermark_ratio",
        "eviction_ratio",
        "default_kv_lease_ttl",
        "client_ttl",
        "enable_offload",
    }
)

_ROWS = (
    MooncakeRelease("0.3.11.post1", "kvpool/mooncake:0.3.11.post1", _MASTER_FLAGS, "Guide 1 (floor), Guide 2.2.2"),
    MooncakeRelease("0.3.12", "kvpool/mooncake:0.3.12", _MASTER_FLAGS, "Guide 2.2.3: tenants start here"),
    MooncakeRelease("0.3.13", "kvpool/mooncake:0.3.13", _MASTER_FLAGS, "run: starts without CANN from here on"),
)

MOONCAKE_RELEASES = MappingProxyType({row.version: row for row in _ROWS})
DEFAULT_MOONCAKE_RELEASE = "0.3.13"

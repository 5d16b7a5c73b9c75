"""mooncake.json, as vllm-ascend's backend and ours read it (Guide 2.2.1)."""

from __future__ import annotations

import json

from kvpool_connector.contract.environ import PoolContract


def render_mooncake_json(pool: PoolContract) -> str:
    """The file's text. Sizes are plain bytes: the reader knows kb, mb and gb, never Kubernetes' Gi."""
    return json.dumps(
        {
            "metadata_server": "P2PHANDSHAKE",
            "protocol": pool.protocol,
            "device_name": "",
            "master_server_address": pool.master,
            "global_segment_size": pool.segment_bytes,
            "local_buffer_size": pool.local_buffer_bytes,
            "preferred_segment": False,
            "prefer_alloc_in_same_node": True,
            "enable_ssd_offload": False,
            "tenant_id": pool.tenant,
        },
        indent=2,
    )

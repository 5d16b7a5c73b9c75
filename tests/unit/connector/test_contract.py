"""The contract and the renderings that the Guide's samples give."""

from __future__ import annotations

import json

import pytest

from kvpool_connector.contract import EngineContract, render_kv_transfer_config, render_mooncake_json
from tests.unit.connector.builders import CONTRACT, P2P

POINT_TO_POINT = {
    "kv_connector": "MooncakeConnectorV1",
    "kv_connector_extra_config": {"prefill": {"dp_size": 1, "tp_size": 8}, "decode": {"dp_size": 1, "tp_size": 8}},
}
GUIDE_PREFILL = {
    "kv_connector": "MultiConnector",
    "kv_role": "kv_producer",
    "kv_connector_extra_config": {
        "connectors": [
            {**POINT_TO_POINT, "kv_role": "kv_producer", "kv_port": "20001"},
            {
                "kv_connector": "AscendStoreConnector",
                "kv_role": "kv_producer",
                "kv_connector_extra_config": {"backend": "mooncake", "lookup_rpc_port": "0"},
            },
        ]
    },
    "kv_load_failure_policy": "recompute",
}
GUIDE_DECODE = {
    "kv_connector": "MultiConnector",
    "kv_role": "kv_consumer",
    "kv_connector_extra_config": {
        "connectors": [
            {**POINT_TO_POINT, "kv_role": "kv_consumer", "kv_port": "20001"},
            {
                "kv_connector": "AscendStoreConnector",
                "kv_role": "kv_consumer",
                "kv_connector_extra_config": {"backend": "mooncake", "lookup_rpc_port": "1"},
            },
        ]
    },
    "kv_load_failure_policy": "recompute",
}
GUIDE_MIXED = {
    "kv_connector": "AscendStoreConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"backend": "mooncake", "lookup_rpc_port": "0"},
    "kv_load_failure_policy": "recompute",
}
NATIVE_MIXED = {
    "kv_connector": "KVPoolConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"backend": "mooncake", "lookup_rpc_port": "0", "key_namespace": "3f6c/default"},
    "kv_load_failure_policy": "recompute",
}
NATIVE_PREFILL = {**NATIVE_MIXED, "kv_role": "kv_producer"}
NATIVE_DECODE = {
    **NATIVE_MIXED,
    "kv_role": "kv_consumer",
    "kv_connector_extra_config": {
        "backend": "mooncake",
        "lookup_rpc_port": "1",
        "consumer_is_to_load": True,
        "key_namespace": "3f6c/default",
    },
}


def contract(**changes: str) -> EngineContract:
    return EngineContract.from_environ({**CONTRACT, **changes})


@pytest.mark.parametrize(
    ("role", "connector", "transfer", "expected"),
    [
        ("Prefill", "AscendStore", "P2P", GUIDE_PREFILL),
        ("Decode", "AscendStore", "P2P", GUIDE_DECODE),
        ("Mixed", "AscendStore", "Pool", GUIDE_MIXED),
        ("Prefill", "Native", "Pool", NATIVE_PREFILL),
        ("Decode", "Native", "Pool", NATIVE_DECODE),
        ("Mixed", "Native", "Pool", NATIVE_MIXED),
    ],
)
def test_the_transfer_configuration_is_the_guides(
    role: str, connector: str, transfer: str, expected: dict[str, object]
) -> None:
    changes = {"KVPOOL_ROLE": role, "KVPOOL_CONNECTOR": connector, "KVPOOL_TRANSFER": transfer}
    if transfer == "P2P":
        changes["KVPOOL_P2P"] = P2P
    assert render_kv_transfer_config(contract(**changes)) == expected


def test_mooncake_json_is_the_guides_sample_with_sizes_in_bytes() -> None:
    assert json.loads(render_mooncake_json(contract())) == {
        "metadata_server": "P2PHANDSHAKE",
        "protocol": "ascend",
        "device_name": "",
        "master_server_address": "pool-master.ml.svc:50088",
        "global_segment_size": 1073741824,
        "local_buffer_size": 1073741824,
        "preferred_segment": False,
        "prefer_alloc_in_same_node": True,
        "enable_ssd_offload": False,
        "tenant_id": "default",
    }


@pytest.mark.parametrize("changes", [{}, {"KVPOOL_P2P": P2P, "KVPOOL_TRANSFER": "P2P"}, {"KVPOOL_LOAD_ASYNC": "true"}])
def test_a_contract_survives_the_environment(changes: dict[str, str]) -> None:
    original = contract(**changes)
    assert EngineContract.from_environ(original.to_environ()) == original


def test_the_load_failure_policy_stands_on_the_outermost_connector() -> None:
    config = render_kv_transfer_config(
        contract(KVPOOL_ROLE="Prefill", KVPOOL_TRANSFER="P2P", KVPOOL_P2P=P2P, KVPOOL_LOAD_FAILURE_POLICY="Fail")
    )
    assert config["kv_load_failure_policy"] == "fail"
    children = config["kv_connector_extra_config"]["connectors"]
    assert all("kv_load_failure_policy" not in child and "engine_id" not in child for child in children)

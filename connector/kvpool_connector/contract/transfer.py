"""`--kv-transfer-config` for every connector kvpool renders (Guide 2.3 and 2.4)."""

from __future__ import annotations

from typing import Any

from kvpool_connector.contract.environ import EngineContract

CONNECTOR_NAME = "KVPoolConnector"
_KV_ROLE = {"Prefill": "kv_producer", "Decode": "kv_consumer", "Mixed": "kv_both"}
# The lookup port is the name of a socket file in the pod's own temp folder; the values are the Guide's.
_LOOKUP_RPC_PORT = {"Prefill": "0", "Decode": "1", "Mixed": "0"}


def render_kv_transfer_config(engine: EngineContract) -> dict[str, Any]:
    """The configuration object; serialise it with json.dumps and pass it as one argument.

    The load failure policy stands on the outermost connector, the only place vLLM reads it; point-to-point transfer
    comes before the store, so that a store hit never suppresses the pull from prefill.
    """
    store = _store_connector(engine)
    config = _multi_connector(engine, store) if engine.transfer == "P2P" and engine.role != "Mixed" else store
    return {**config, "kv_load_failure_policy": engine.load_failure_policy.lower()}


def _store_connector(engine: EngineContract) -> dict[str, Any]:
    extra: dict[str, Any] = {"backend": engine.backend, "lookup_rpc_port": _LOOKUP_RPC_PORT[engine.role]}
    if engine.load_async:
        extra["load_async"] = True
    if engine.role == "Decode":
        extra |= {k: True for k, on in _consumer_switches(engine).items() if on}
    if engine.connector == "Native":
        extra["key_namespace"] = engine.key_namespace
        if engine.model_revision:
            extra["model_revision"] = engine.model_revision
    name = CONNECTOR_NAME if engine.connector == "Native" else "AscendStoreConnector"
    return {"kv_connector": name, "kv_role": _KV_ROLE[engine.role], "kv_connector_extra_config": extra}


def _consumer_switches(engine: EngineContract) -> dict[str, bool]:
    return {
        "consumer_is_to_load": engine.decode_loads or engine.transfer == "Pool",
        "consumer_is_to_put": engine.decode_puts,
    }


def _multi_connector(engine: EngineContract, store: dict[str, Any]) -> dict[str, Any]:
    if engine.p2p is None:
        raise ValueError("KVPOOL_P2P is missing: transfer P2P needs the port and both roles' parallel sizes")
    layout = engine.p2p
    point_to_point = {
        "kv_connector": "MooncakeConnectorV1",
        "kv_role": _KV_ROLE[engine.role],
        "kv_port": str(layout.kv_port),
        "kv_connector_extra_config": {
            "prefill": {"dp_size": layout.prefill_dp, "tp_size": layout.prefill_tp},
            "decode": {"dp_size": layout.decode_dp, "tp_size": layout.decode_tp},
        },
    }
    return {
        "kv_connector": "MultiConnector",
        "kv_role": _KV_ROLE[engine.role],
        "kv_connector_extra_config": {"connectors": [point_to_point, store]},
    }

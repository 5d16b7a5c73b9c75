"""vLLM's way in: the entry point `vllm.general_plugins`, called in the API, engine and worker processes."""

from __future__ import annotations

from kvpool_connector.contract.transfer import CONNECTOR_NAME

CONNECTOR_MODULE = "kvpool_connector.connector"


def register() -> None:
    """Make the connector known by its class name. Calling it again changes nothing."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    if CONNECTOR_NAME not in KVConnectorFactory._registry:
        KVConnectorFactory.register_connector(CONNECTOR_NAME, CONNECTOR_MODULE, CONNECTOR_NAME)

"""The environment contract between operator and engine.

The operator writes it into every engine pod, the launcher reads it there and renders from it the files and flags that
vLLM and the store clients want. Both sides use the models of this package, so a variable has one name, one type and
one place. Only pydantic and the standard library are imported, and Python 3.10 is enough.
"""

from kvpool_connector.contract.environ import EngineContract, P2PLayout, PoolContract
from kvpool_connector.contract.mooncake import render_mooncake_json
from kvpool_connector.contract.quantity import format_quantity, parse_quantity
from kvpool_connector.contract.transfer import CONNECTOR_NAME, render_kv_transfer_config

__all__ = [
    "CONNECTOR_NAME",
    "EngineContract",
    "P2PLayout",
    "PoolContract",
    "format_quantity",
    "parse_quantity",
    "render_kv_transfer_config",
    "render_mooncake_json",
]

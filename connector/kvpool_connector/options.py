"""`kv_connector_extra_config`: one model for the connector and whoever writes its configuration.

The names are AscendStoreConnector's where it has one, so that swapping the connector's name keeps a configuration
valid. A wrong value stops the engine at start; a key that means nothing here is named in a warning.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, field_validator

# Keys of AscendStoreConnector that this connector cannot honour, with the values that ask for nothing. Any other must
# not be ignored in silence.
_UNSUPPORTED: dict[str, tuple[str, ...]] = {
    "use_layerwise": ("False", "None"),
    "prefill_pp_size": ("1", "None"),
    "prefill_pp_layer_partition": ("None",),
    "prefill_tp_size": ("1", "None"),
    "decode_tp_size": ("1", "None"),
}


class ConnectorOptions(BaseModel):
    """The connector's options with their defaults."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    backend: Literal["mooncake", "memory", "fs"] = "mooncake"
    lookup_rpc_port: str = Field("0", description="Part of the look-up socket's name.")
    load_async: StrictBool = False
    consumer_is_to_load: StrictBool = False
    consumer_is_to_put: StrictBool = False
    save_decode_cache: StrictBool = False
    discard_partial_chunks: StrictBool = True
    key_namespace: str = Field("", max_length=253)
    model_revision: str = Field("", max_length=253)
    lookup_timeout_ms: int = Field(2000, gt=0, le=60_000)
    save_async: bool | None = Field(
        None, description="Whether steps go on before their blocks are stored; default: unless kv_producer."
    )
    fs_path: str = Field(f"{tempfile.gettempdir()}/kvpool-fs", description="Folder of backend fs.")

    @field_validator("lookup_rpc_port", mode="before")
    @classmethod
    def _port_as_text(cls, value: object) -> object:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @property
    def lookup_timeout(self) -> float:
        """The look-up deadline in seconds."""
        return self.lookup_timeout_ms / 1000


def parse_options(extra: Mapping[str, Any]) -> tuple[ConnectorOptions, list[str]]:
    """The options, and a warning for each key that has no effect.

    Raises ValueError with one line that names key, value and rule.
    """
    for key, neutral in _UNSUPPORTED.items():
        if str(extra.get(key)) not in neutral:
            raise ValueError(
                f"kv_connector_extra_config.{key}={extra[key]!r}: KVPoolConnector has no such mode; "
                "use AscendStoreConnector for it"
            )
    try:
        options = ConnectorOptions.model_validate(dict(extra))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"kv_connector_extra_config.{key}={first['input']!r}: {first['msg']}") from None
    known = {*ConnectorOptions.model_fields, *_UNSUPPORTED}
    warnings = [f"kv_connector_extra_config.{key} is unknown and has no effect" for key in extra if key not in known]
    if not options.discard_partial_chunks:
        warnings.append("kv_connector_extra_config.discard_partial_chunks=False has no effect: only full blocks pool")
    return options, warnings

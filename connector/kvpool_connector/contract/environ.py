"""The contract's variables: names, types and defaults, each once.

A field's alias is the name of its environment variable. Variables that vLLM or a store reads itself keep their
upstream name; `KVPOOL_*` is for what has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

Backend = Literal["mooncake"]
Connector = Literal["Native", "AscendStore"]
Transfer = Literal["Pool", "P2P"]
Role = Literal["Prefill", "Decode", "Mixed"]
LoadFailurePolicy = Literal["Recompute", "Fail"]
Protocol = Literal["tcp", "ascend"]

_Contract = TypeVar("_Contract", bound="PoolContract")  # typing.Self is not in Python 3.10
DEFAULT_MOONCAKE_CONFIG_PATH = "/run/kvpool/mooncake.json"


def _as_variable(value: object) -> str:
    """One value as text: booleans as true/false, nested models as JSON, the rest as it prints."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return str(value)


class P2PLayout(BaseModel):
    """What MooncakeConnectorV1 must be told of both sides (vllm-ascend, `prefill` and `decode` blocks)."""

    model_config = ConfigDict(frozen=True)

    kv_port: int
    prefill_tp: int = 1
    prefill_dp: int = 1
    decode_tp: int = 1
    decode_dp: int = 1


class PoolContract(BaseModel):
    """What every client of one pool must agree on, whichever group it belongs to."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="ignore")

    version: Literal["1"] = Field("1", alias="KVPOOL_CONTRACT_VERSION")
    backend: Backend = Field("mooncake", alias="KVPOOL_BACKEND")
    master: str = Field(alias="MOONCAKE_MASTER", description="host:port of the Mooncake master; a stable name.")
    protocol: Protocol = Field(alias="KVPOOL_PROTOCOL", description="Transfer protocol of the store client.")
    segment_bytes: int = Field(
        alias="MOONCAKE_GLOBAL_SEGMENT_SIZE", ge=0, description="Memory each rank gives to the pool, in bytes."
    )
    local_buffer_bytes: int = Field(
        alias="KVPOOL_LOCAL_BUFFER_SIZE", gt=0, description="The client's transfer buffer, in bytes."
    )
    tenant: str = Field("default", alias="KVPOOL_TENANT", description="Mooncake tenant.")
    hash_seed: str = Field("0", alias="PYTHONHASHSEED", description="One value per pool, or nothing ever hits.")
    hash_algorithm: str = Field(
        "sha256_cbor", alias="KVPOOL_HASH_ALGORITHM", description="vLLM --prefix-caching-hash-algo."
    )
    block_size: int = Field(128, alias="KVPOOL_BLOCK_SIZE", gt=0, description="Tokens in a KV block.")
    kv_cache_dtype: str = Field("auto", alias="KVPOOL_KV_CACHE_DTYPE", description="vLLM --kv-cache-dtype.")
    key_namespace: str = Field(
        alias="KVPOOL_KEY_NAMESPACE", description="First part of every key; pool uid and tenant by default."
    )
    mooncake_config_path: str = Field(
        DEFAULT_MOONCAKE_CONFIG_PATH,
        alias="MOONCAKE_CONFIG_PATH",
        description="Where the launcher writes mooncake.json.",
    )

    @classmethod
    def from_environ(cls: type[_Contract], environ: Mapping[str, str]) -> _Contract:
        """Read the contract from a process environment.

        Raises pydantic.ValidationError that names each missing or wrong variable.
        """
        names = {str(f.alias) for f in cls.model_fields.values()}
        return cls.model_validate({k: v for k, v in environ.items() if k in names})

    def to_environ(self) -> dict[str, str]:
        """The variables to set, in the order of the fields; what is None is left out."""
        return {
            str(field.alias): _as_variable(value)
            for name, field in type(self).model_fields.items()
            if (value := getattr(self, name)) is not None
        }


class EngineContract(PoolContract):
    """The pool's contract and what one engine does with it."""

    role: Role = Field(alias="KVPOOL_ROLE")
    connector: Connector = Field(alias="KVPOOL_CONNECTOR")
    transfer: Transfer = Field(alias="KVPOOL_TRANSFER", description="How prefill hands KV to decode.")
    load_failure_policy: LoadFailurePolicy = Field("Recompute", alias="KVPOOL_LOAD_FAILURE_POLICY")
    load_async: bool = Field(False, alias="KVPOOL_LOAD_ASYNC")
    decode_puts: bool = Field(False, alias="KVPOOL_DECODE_PUTS", description="Decode saves to the pool as well.")
    decode_loads: bool = Field(False, alias="KVPOOL_DECODE_LOADS", description="Decode looks the pool up.")
    model_revision: str = Field("", alias="KVPOOL_MODEL_REVISION", description="Part of the key namespace.")
    p2p: P2PLayout | None = Field(None, alias="KVPOOL_P2P", description="JSON; set for transfer P2P only.")
    store_wait_seconds: int = Field(
        300, alias="KVPOOL_STORE_WAIT_SECONDS", gt=0, description="How long the launcher waits for the store."
    )

    @field_validator("p2p", mode="before")
    @classmethod
    def _p2p_from_json(cls, value: object) -> object:
        return P2PLayout.model_validate_json(value) if isinstance(value, str) else value

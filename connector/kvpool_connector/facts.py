"""What the connector reads of vLLM's configuration, in one place, for every release it runs with.

Fields that only some releases have are asked for by name with a default; nothing compares versions.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvpool_connector.keys import Namespace
from kvpool_connector.options import ConnectorOptions

_SAMPLE_BYTES = 65536


@dataclass(frozen=True)
class EngineFacts:
    """One rank's engine: sizes, splits, and what its blocks depend on."""

    block_size: int
    hashes_per_block: int
    num_blocks: int
    kv_role: str
    engine_id: str
    rank: int
    tensor_parallel: int
    pipeline_parallel: int
    kv_heads: int
    device_type: str

    @property
    def tensor_rank(self) -> int:
        """This rank within its tensor-parallel group."""
        return self.rank % self.tensor_parallel

    @property
    def stage(self) -> int:
        """This rank's pipeline stage."""
        return self.rank // self.tensor_parallel % self.pipeline_parallel

    @property
    def replicas(self) -> int:
        """How many tensor ranks in a row hold the same heads."""
        return max(1, self.tensor_parallel // max(1, self.kv_heads))

    @property
    def head_ranks(self) -> int:
        """Into how many different parts a block's heads are split."""
        return self.tensor_parallel // self.replicas


def read_facts(vllm_config: Any, kv_cache_config: Any) -> EngineFacts:
    """The facts. Raises ValueError for a model or split that this connector does not handle."""
    parallel, model, transfer = vllm_config.parallel_config, vllm_config.model_config, vllm_config.kv_transfer_config
    for name in ("decode_context_parallel_size", "prefill_context_parallel_size"):
        if getattr(parallel, name, 1) > 1:
            raise ValueError(f"KVPoolConnector does not handle {name} > 1: use AscendStoreConnector")
    groups = kv_cache_config.kv_cache_groups
    if len(groups) != 1:
        raise ValueError(
            f"KVPoolConnector handles models with one kind of attention; this one has {len(groups)} KV cache groups: "
            "use AscendStoreConnector, or --disable-hybrid-kv-cache-manager if the model allows it"
        )
    block_size = groups[0].kv_cache_spec.block_size
    hash_size = getattr(kv_cache_config, "hash_block_size", None) or block_size
    return EngineFacts(
        block_size=block_size,
        hashes_per_block=block_size // hash_size,
        num_blocks=kv_cache_config.num_blocks,
        kv_role=str(transfer.kv_role),
        engine_id=f"{transfer.engine_id}-{getattr(parallel, 'data_parallel_rank', 0)}",
        rank=getattr(parallel, "rank", 0),
        tensor_parallel=parallel.tensor_parallel_size,
        pipeline_parallel=parallel.pipeline_parallel_size,
        kv_heads=1 if getattr(model, "use_mla", False) else model.get_total_num_kv_heads(),
        device_type=_device_type(),
    )


def read_namespace(
    vllm_config: Any, facts: EngineFacts, options: ConnectorOptions, layout: tuple[str, ...], device_kind: str
) -> Namespace:
    """Everything that decides the bytes of this engine's blocks."""
    model, cache = vllm_config.model_config, vllm_config.cache_config
    path = str(model.model).rstrip("/")
    return Namespace(
        namespace=options.key_namespace,
        model=path.rsplit("/", 1)[-1],
        revision=options.model_revision or str(getattr(model, "revision", None) or ""),
        weights=fingerprint_of(path),
        dtype=str(model.dtype),
        kv_cache_dtype=str(cache.cache_dtype),
        quantization=str(getattr(model, "quantization", None) or ""),
        layout=layout,
        layers=getattr(model.hf_text_config, "num_hidden_layers", 0),
        block_size=facts.block_size,
        tensor_parallel=facts.tensor_parallel,
        kv_heads=facts.kv_heads,
        pipeline_parallel=facts.pipeline_parallel,
        pipeline_partition=os.environ.get("VLLM_PP_LAYER_PARTITION", ""),
        hash_algorithm=str(getattr(cache, "prefix_caching_hash_algo", "")),
        hash_seed=os.environ.get("PYTHONHASHSEED", ""),
        device=device_kind,
    )


def fingerprint_of(model: str) -> str:
    """A short digest of the weights in a local folder, from the names, sizes and ends of its files.

    Two fine-tunes of one model in folders of one name differ in it. Empty for a model that is not a folder.
    """
    folder = Path(model)
    if not folder.is_dir():
        return ""
    total = hashlib.sha256()
    for path in sorted((*folder.glob("*.safetensors"), *folder.glob("*.bin"), folder / "config.json")):
        if not path.is_file():
            continue
        size = path.stat().st_size
        total.update(f"{path.name}:{size}:".encode())
        with path.open("rb") as file:
            file.seek(max(0, size - _SAMPLE_BYTES))
            total.update(file.read(_SAMPLE_BYTES))
    return total.hexdigest()[:16]


def _device_type() -> str:
    from vllm.platforms import current_platform

    return str(current_platform.device_type)

"""Names of the blocks in the store.

Two engines may only share a block whose bytes mean the same to both. Everything that decides those bytes goes into a
digest, and the digest into every key, so that a difference is a miss and never a wrong hit. A key is ASCII and shorter
than 256 characters: `v1/<model>/<digest>/<pipeline stage>/<head rank>/<block hash>`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

FORMAT = "v1"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_MODEL_LENGTH = 64


@dataclass(frozen=True)
class Namespace:
    """All that makes two blocks with one hash the same bytes."""

    namespace: str
    model: str
    revision: str
    weights: str
    dtype: str
    kv_cache_dtype: str
    quantization: str
    layout: tuple[str, ...]
    layers: int
    block_size: int
    tensor_parallel: int
    kv_heads: int
    pipeline_parallel: int
    pipeline_partition: str
    hash_algorithm: str
    hash_seed: str
    device: str

    def digest(self) -> str:
        """32 hexadecimal digits; stable over processes, machines and Python versions."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class KeySpace:
    """The keys of one namespace, for each part of a block that a rank holds."""

    model: str
    digest: str
    stages: int = 1
    heads: int = 1

    @classmethod
    def of(cls, namespace: Namespace, heads: int) -> KeySpace:
        """The key space of a namespace whose blocks are split into so many head ranks."""
        model = _UNSAFE.sub("_", namespace.model)[:_MODEL_LENGTH] or "model"
        return cls(model, namespace.digest(), namespace.pipeline_parallel, heads)

    def key(self, block_hash: bytes, stage: int, head: int) -> str:
        """The key of the part of a block that belongs to one pipeline stage and head rank."""
        return f"{FORMAT}/{self.model}/{self.digest}/{stage}/{head}/{block_hash.hex()}"

    def parts(self, block_hash: bytes) -> list[str]:
        """The keys of all parts of a block: it can be loaded only if every one is there."""
        return [self.key(block_hash, stage, head) for stage in range(self.stages) for head in range(self.heads)]


def whole_prefix(present: Sequence[bool], parts: int) -> int:
    """How many leading blocks have all their parts; `present` lists the parts block by block."""
    blocks = 0
    for start in range(0, len(present), parts):
        if not all(present[start : start + parts]):
            break
        blocks += 1
    return blocks

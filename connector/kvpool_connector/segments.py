"""Where a block's bytes lie in memory, whatever the attention back end made of its tensors.

vLLM hands over one tensor a layer, or a tuple of tensors (Ascend: keys and values apart). The contents are never
interpreted: each tensor becomes base address, bytes of a block and distance between blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Segment:
    """One tensor's share of every block."""

    base: int
    block_bytes: int
    stride: int


@dataclass(frozen=True)
class Region:
    """A piece of memory to register with the store client."""

    base: int
    length: int


@dataclass(frozen=True)
class BlockLayout:
    """All segments of this rank, in the order of the layers, and what describes their form."""

    segments: tuple[Segment, ...]
    regions: tuple[Region, ...]
    forms: tuple[str, ...]

    @property
    def block_bytes(self) -> int:
        """Bytes of one stored object."""
        return sum(segment.block_bytes for segment in self.segments)

    def addresses(self, block: int) -> list[int]:
        """Where the pieces of this block start."""
        return [segment.base + block * segment.stride for segment in self.segments]

    def sizes(self) -> list[int]:
        """How long the pieces of any block are."""
        return [segment.block_bytes for segment in self.segments]


def layout_of(kv_caches: Mapping[str, Any], num_blocks: int) -> BlockLayout:
    """The layout of the registered caches. Layers that share a tensor count once."""
    segments: dict[int, Segment] = {}
    regions: dict[int, Region] = {}
    forms: set[str] = set()
    for layer, cache in kv_caches.items():
        for tensor in cache if isinstance(cache, (tuple, list)) else (cache,):
            for part in _by_block(tensor, num_blocks, layer):
                segments.setdefault(part.data_ptr(), _segment(part, layer))
                forms.add(_form(part))
            storage = tensor.untyped_storage()
            regions.setdefault(storage.data_ptr(), Region(storage.data_ptr(), storage.nbytes()))
    if not segments:
        raise ValueError("the engine registered no KV cache: nothing to pool")
    return BlockLayout(tuple(segments.values()), tuple(regions.values()), tuple(sorted(forms)))


def _by_block(tensor: Any, num_blocks: int, layer: str) -> Iterable[Any]:
    """The tensor as parts whose first dimension counts blocks."""
    shape = tuple(tensor.shape)
    if shape and shape[0] == num_blocks:
        return (tensor,)
    if len(shape) > 1 and shape[1] == num_blocks and shape[0] == 2:
        return (tensor[0], tensor[1])
    raise ValueError(f"layer {layer}: no dimension of the KV cache {shape} counts its {num_blocks} blocks")


def _segment(tensor: Any, layer: str) -> Segment:
    if not tensor[0].is_contiguous():
        raise ValueError(f"layer {layer}: a block of the KV cache is not contiguous, strides {tuple(tensor.stride())}")
    item = tensor.element_size()
    return Segment(tensor.data_ptr(), tensor[0].numel() * item, tensor.stride()[0] * item)


def _form(tensor: Any) -> str:
    return f"{tensor.dtype}{tuple(tensor.shape)[1:]}"

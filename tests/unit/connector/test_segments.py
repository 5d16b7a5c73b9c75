"""Addresses of blocks for every form in which vLLM hands over its cache."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kvpool_connector.segments import Region, layout_of


class Storage:
    def __init__(self, base: int, size: int) -> None:
        self._base, self._size = base, size

    def data_ptr(self) -> int:
        return self._base

    def nbytes(self) -> int:
        return self._size


class Tensor:
    """A tensor of two-byte items, as far as it is read."""

    dtype = "bf16"

    def __init__(self, shape: tuple[int, ...], base: int, stride: tuple[int, ...] = (), storage: Storage | None = None):
        self.shape = shape
        self._base = base
        self._stride = stride or tuple(math.prod(shape[index + 1 :]) for index in range(len(shape)))
        self._storage = storage or Storage(base, math.prod(shape) * 2)

    def data_ptr(self) -> int:
        return self._base

    def stride(self) -> tuple[int, ...]:
        return self._stride

    def element_size(self) -> int:
        return 2

    def numel(self) -> int:
        return math.prod(self.shape)

    def is_contiguous(self) -> bool:
        return self._stride == tuple(math.prod(self.shape[index + 1 :]) for index in range(len(self.shape)))

    def untyped_storage(self) -> Storage:
        return self._storage

    def __getitem__(self, index: int) -> Tensor:
        return Tensor(self.shape[1:], self._base + 2 * index * self._stride[0], self._stride[1:], self._storage)


def test_one_tensor_a_layer() -> None:
    layout = layout_of({"l0": Tensor((10, 2, 4, 8), 1000), "l1": Tensor((10, 2, 4, 8), 5000)}, 10)
    assert layout.addresses(3) == [1000 + 3 * 128, 5000 + 3 * 128]
    assert layout.sizes() == [128, 128]
    assert layout.block_bytes == 256
    assert layout.regions == (Region(1000, 1280), Region(5000, 1280))


def test_keys_and_values_apart_as_on_ascend() -> None:
    layout = layout_of({"l0": (Tensor((10, 4, 8), 1000), Tensor((10, 4, 2), 9000))}, 10)
    assert layout.addresses(1) == [1064, 9016]
    assert layout.sizes() == [64, 16]


def test_keys_and_values_stacked_before_the_blocks() -> None:
    layout = layout_of({"l0": Tensor((2, 10, 4, 8), 1000)}, 10)
    assert layout.addresses(1) == [1064, 1000 + 640 + 64]
    assert len(layout.regions) == 1


def test_layers_that_share_a_tensor_count_once() -> None:
    shared = Tensor((10, 4, 8), 1000)
    assert layout_of({"l0": shared, "l1": shared}, 10).block_bytes == 64


def test_the_form_tells_head_splits_apart_but_not_cache_sizes() -> None:
    def forms(blocks: int, heads: int) -> Any:
        return layout_of({"l0": Tensor((blocks, heads, 4, 8), 1000)}, blocks).forms

    assert forms(10, 2) == forms(20, 2)
    assert forms(10, 2) != forms(10, 1)


@pytest.mark.parametrize("tensor", [Tensor((9, 4, 8), 1000), Tensor((10, 4, 8), 1000, stride=(8, 80, 1))])
def test_a_cache_that_cannot_be_moved_by_blocks_is_refused_with_its_layer(tensor: Tensor) -> None:
    with pytest.raises(ValueError, match=r"layer model\.layers\.7"):
        layout_of({"model.layers.7": tensor}, 10)

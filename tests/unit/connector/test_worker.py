"""The worker side on plain memory: which bytes end up where, and what is reported when the store fails."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kvpool_connector.backends import memory
from kvpool_connector.backends.base import Outcome, StoreUnavailable, Transfer
from kvpool_connector.counters import Counters
from kvpool_connector.keys import KeySpace
from kvpool_connector.plan import Load, Save, StepPlan
from kvpool_connector.segments import BlockLayout, Region, Segment
from kvpool_connector.staging import Staging
from kvpool_connector.store import StoreClient
from kvpool_connector.worker import PoolWorker, WorkerRules

BLOCK = 16
BLOCKS = 8


class Done:
    def synchronize(self) -> None:
        pass


class Cpu:
    kind = "cpu"
    host_memory = True

    def bind_thread(self) -> None:
        pass

    def record(self) -> Done:
        return Done()

    def synchronize(self) -> None:
        pass


class Cache:
    """The KV cache of two layers."""

    def __init__(self) -> None:
        self.layers = [ctypes.create_string_buffer(BLOCK * BLOCKS) for _ in range(2)]
        segments = tuple(Segment(ctypes.addressof(layer), BLOCK, BLOCK) for layer in self.layers)
        self.layout = BlockLayout(segments, tuple(Region(s.base, BLOCK * BLOCKS) for s in segments), ("u8",))

    def fill(self, block: int, value: bytes) -> None:
        for index, layer in enumerate(self.layers):
            ctypes.memset(ctypes.addressof(layer) + block * BLOCK, value[0] + index, BLOCK)

    def read(self, block: int) -> list[bytes]:
        return [layer.raw[block * BLOCK : (block + 1) * BLOCK] for layer in self.layers]


class Faulty(memory.MemoryBackend):
    """A memory store whose calls can be made to fail."""

    def __init__(self) -> None:
        self.down = False
        self.outcome: Outcome | None = None
        self.calls = 0

    def health(self) -> bool:
        return not self.down

    def exists(self, keys: Sequence[str]) -> list[bool]:
        self._ask()
        return super().exists(keys)

    def put(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        self._ask()
        return [self.outcome] * len(transfers) if self.outcome else super().put(transfers)

    def get(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        self._ask()
        return [self.outcome] * len(transfers) if self.outcome else super().get(transfers)

    def _ask(self) -> None:
        self.calls += 1
        if self.down:
            raise StoreUnavailable("down")


class Rank:
    """One engine's worker side."""

    def __init__(
        self, backend: Any, any_rank: Callable[[bool], bool] = bool, staged: bool = False, **rules: Any
    ) -> None:
        self.cache = Cache()
        self.counters = Counters()
        self.store = StoreClient(backend, self.cache.layout.regions, lambda: None)
        assert self.store.start(wait=10), "the store was never joined"
        keys = KeySpace("m", "d")
        place = WorkerRules(save_async=False, **rules)
        staging = Staging(self.cache.layout.block_bytes, 2) if staged else None
        self.pool = PoolWorker(self.store, self.cache.layout, keys, Cpu(), place, self.counters, any_rank, staging)

    def save(self, step: int, hashes: list[bytes], blocks: list[int], acknowledged: int = 0) -> None:
        self.pool.end_step(StepPlan(step, acknowledged, saves=[Save("r", hashes, blocks)]))

    def load(self, step: int, hashes: list[bytes], blocks: list[int], acknowledged: int = 0) -> StepPlan:
        plan = StepPlan(step, acknowledged, loads=[Load("r", hashes, blocks, False)])
        self.pool.start_loads(plan)
        return plan


@pytest.fixture(autouse=True)
def empty_store() -> Iterator[None]:
    memory._OBJECTS.clear()
    yield
    memory._OBJECTS.clear()


@pytest.mark.parametrize("staged", [False, True])
def test_another_engine_gets_the_bytes_that_were_saved_into_other_blocks(staged: bool) -> None:
    one, two = Rank(memory.MemoryBackend(), staged=staged), Rank(memory.MemoryBackend())
    one.cache.fill(2, b"a")
    one.cache.fill(5, b"k")
    one.save(1, [b"h0", b"h1", b"h9"], [2, 5, 6])
    assert two.pool.count_blocks([b"h0", b"h1", b"h2"]) == 2
    two.load(1, [b"h0", b"h1"], [7, 0])
    assert two.cache.read(7) == one.cache.read(2) == [b"a" * BLOCK, b"b" * BLOCK]
    assert two.cache.read(0) == one.cache.read(5)
    assert two.pool.take_invalid_blocks() == set()
    assert two.pool.take_counts()["loaded_bytes"] == 4 * BLOCK


def test_blocks_from_the_first_missing_one_on_are_invalid() -> None:
    one, two = Rank(memory.MemoryBackend()), Rank(memory.MemoryBackend())
    one.save(1, [b"h0", b"h2"], [0, 2])
    two.load(1, [b"h0", b"h1", b"h2"], [4, 5, 6])
    assert two.pool.take_invalid_blocks() == {5, 6}
    assert two.pool.take_invalid_blocks() == set()


def test_an_object_of_another_length_is_never_used() -> None:
    rank = Rank(memory.MemoryBackend())
    memory._OBJECTS[KeySpace("m", "d").key(b"h0", 0, 0)] = b"short"
    before = rank.cache.read(3)
    rank.load(1, [b"h0"], [3])
    assert rank.pool.take_invalid_blocks() == {3}
    assert rank.cache.read(3) == before


def test_nothing_is_saved_from_a_step_whose_load_failed_until_the_scheduler_knows() -> None:
    rank = Rank(memory.MemoryBackend())
    rank.load(4, [b"gone"], [1])
    rank.save(4, [b"h1"], [2])
    rank.save(5, [b"h2"], [3], acknowledged=3)
    assert memory._OBJECTS == {}
    rank.save(6, [b"h3"], [4], acknowledged=4)
    assert len(memory._OBJECTS) == 1
    assert rank.pool.take_counts()["dropped_blocks.after_failed_load"] == 2


def test_a_load_that_failed_on_another_rank_stops_saves_here() -> None:
    rank = Rank(memory.MemoryBackend(), any_rank=lambda mine: True)
    rank.save(1, [b"h0"], [0])
    rank.load(2, [b"h0"], [5])
    rank.save(2, [b"h1"], [1])
    assert len(memory._OBJECTS) == 1


def test_a_store_that_died_fails_loads_and_drops_saves_without_being_asked_again() -> None:
    backend = Faulty()
    rank = Rank(backend)
    rank.save(1, [b"h0"], [0])
    backend.down = True
    rank.load(2, [b"h0"], [5])
    asked = backend.calls
    rank.load(3, [b"h0"], [6])
    rank.save(4, [b"h1"], [1], acknowledged=3)
    assert rank.pool.count_blocks([b"h0"]) is None
    assert backend.calls == asked
    assert rank.pool.take_invalid_blocks() == {5, 6}
    counts = rank.pool.take_counts()
    assert counts["dropped_blocks.store_unavailable"] == 1
    assert counts["store_outages"] == 1
    assert counts["store_up"] == 0


@pytest.mark.parametrize(("outcome", "reason"), [(Outcome.FULL, "store_full"), (Outcome.FAILED, "put_failed")])
def test_a_refused_put_is_dropped_and_counted_by_its_reason(outcome: Outcome, reason: str) -> None:
    backend = Faulty()
    backend.outcome = outcome
    rank = Rank(backend)
    rank.save(1, [b"h0"], [0])
    assert rank.pool.take_counts()[f"dropped_blocks.{reason}"] == 1


def test_of_ranks_with_the_same_heads_one_saves() -> None:
    rank = Rank(memory.MemoryBackend(), saves_head=False)
    rank.save(1, [b"h0"], [0])
    assert memory._OBJECTS == {}

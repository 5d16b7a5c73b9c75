"""The queue of blocks to store, and the fence that keeps them whole."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from kvpool_connector.saver import BATCH_BLOCKS, Batch, Saver


class Done:
    def synchronize(self) -> None:
        pass


class Store:
    """Stores batches when it is let."""

    def __init__(self) -> None:
        self.stored: list[int] = []
        self.began = threading.Event()
        self.gate = threading.Event()
        self.dropped: dict[str, int] = {}

    def store(self, batch: Batch, release: Callable[[], None]) -> None:
        self.began.set()
        assert self.gate.wait(10), "the test never opened the gate"
        self.stored.extend(batch.blocks)

    def copy_and_store(self, batch: Batch, release: Callable[[], None]) -> None:
        copied = list(batch.blocks)
        release()
        self.store(Batch(batch.hashes, copied, batch.event), release)

    def drop(self, reason: str, blocks: int) -> None:
        if blocks:
            self.dropped[reason] = self.dropped.get(reason, 0) + blocks


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()
    yield made
    made.gate.set()


def submit(saver: Saver, *blocks: int) -> None:
    saver.submit([bytes([block % 256]) for block in blocks], list(blocks), Done())


def test_everything_submitted_is_stored_in_order(store: Store) -> None:
    store.gate.set()
    saver = Saver(store.store, store.drop, max_blocks=1000)
    submit(saver, *range(BATCH_BLOCKS + 3))
    assert saver.drain(10)
    assert store.stored == list(range(BATCH_BLOCKS + 3))
    assert store.dropped == {}


def test_a_waiting_block_that_is_handed_out_anew_is_not_stored(store: Store) -> None:
    saver = Saver(store.store, store.drop, max_blocks=1000)
    submit(saver, 1)
    assert store.began.wait(10), "the first batch never began"
    submit(saver, 2, 3)
    saver.fence([3])
    store.gate.set()
    assert saver.drain(10)
    assert store.stored == [1, 2]
    assert store.dropped == {"overwritten": 1}


def test_the_fence_waits_for_a_block_that_is_being_stored(store: Store) -> None:
    saver = Saver(store.store, store.drop, max_blocks=1000)
    submit(saver, 1)
    assert store.began.wait(10), "the first batch never began"
    passed = threading.Event()

    def begin_step() -> None:
        saver.fence([1])
        passed.set()

    step = threading.Thread(target=begin_step)
    step.start()
    assert not passed.wait(0.2)
    store.gate.set()
    assert passed.wait(10), "the fence never opened"
    step.join()
    assert store.stored == [1]


def test_the_fence_does_not_wait_for_other_blocks(store: Store) -> None:
    saver = Saver(store.store, store.drop, max_blocks=1000)
    submit(saver, 1)
    assert store.began.wait(10), "the first batch never began"
    saver.fence([2])
    assert store.stored == []


def test_a_full_queue_drops_the_newest(store: Store) -> None:
    saver = Saver(store.store, store.drop, max_blocks=4, start=False)
    submit(saver, 1, 2, 3)
    submit(saver, 4, 5, 6)
    assert store.dropped == {"queue_full": 2}


def test_closing_drops_what_a_hanging_store_keeps_waiting(store: Store) -> None:
    saver = Saver(store.store, store.drop, max_blocks=1000)
    submit(saver, 1)
    assert store.began.wait(10), "the first batch never began"
    submit(saver, 2, 3)
    saver.close(timeout=0.1)
    assert store.dropped == {"store_unavailable": 2}


def test_a_store_that_hangs_with_a_copy_holds_up_no_step(store: Store) -> None:
    saver = Saver(store.copy_and_store, store.drop, max_blocks=1000)
    submit(saver, 1)
    assert store.began.wait(10), "the first batch never began"
    saver.fence([1])
    assert store.stored == []
    assert not saver.drain(0.05)
    store.gate.set()
    assert saver.drain(10)
    assert store.stored == [1]

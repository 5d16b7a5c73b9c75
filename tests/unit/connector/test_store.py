"""The breaker and the client behind it."""

from __future__ import annotations

import threading
import time

from kvpool_connector.backends.base import StoreUnavailable
from kvpool_connector.backends.memory import MemoryBackend
from kvpool_connector.breaker import FIRST_PAUSE, LONGEST_PAUSE, STRIKES, Breaker
from kvpool_connector.store import StoreClient


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_breaker_starts_open_and_is_probed_at_once() -> None:
    breaker = Breaker(Clock())
    assert not breaker.closed
    assert breaker.wait_before_probe() == 0


def test_one_unreachable_call_opens_and_the_pause_begins() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    breaker.close()
    assert breaker.trip()
    assert not breaker.trip()
    assert breaker.wait_before_probe() == FIRST_PAUSE
    clock.now += FIRST_PAUSE
    assert breaker.wait_before_probe() == 0
    assert breaker.outages == 1


def test_the_pause_grows_to_a_limit_while_the_store_stays_away() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    breaker.close()
    breaker.trip()
    for _ in range(10):
        breaker.probe_failed()
    assert breaker.wait_before_probe() == LONGEST_PAUSE


def test_outages_close_together_double_the_pause_and_far_apart_do_not() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    breaker.close()
    breaker.trip()
    breaker.close()
    breaker.trip()
    assert breaker.wait_before_probe() == 2 * FIRST_PAUSE
    breaker.close()
    clock.now += 3600
    breaker.trip()
    assert breaker.wait_before_probe() == FIRST_PAUSE


def test_failed_transfers_open_only_in_a_row() -> None:
    breaker = Breaker(Clock())
    breaker.close()
    for _ in range(STRIKES - 1):
        assert not breaker.strike()
    breaker.succeed()
    for _ in range(STRIKES - 1):
        assert not breaker.strike()
    assert breaker.strike()
    assert not breaker.closed


class SlowToJoin(MemoryBackend):
    """A store that cannot be joined until it is let."""

    def __init__(self) -> None:
        self.attempts = 0
        self.there = threading.Event()

    def setup(self, regions: object) -> None:
        self.attempts += 1
        if not self.there.is_set():
            raise StoreUnavailable("not yet")


def test_an_engine_does_not_wait_for_a_store_that_is_not_there_and_joins_it_later() -> None:
    backend = SlowToJoin()
    store = StoreClient(backend, (), lambda: None)
    assert not store.start(wait=0.1)
    assert store.exists(["k"]) is None
    backend.there.set()
    deadline = time.monotonic() + 10
    while store.exists(["k"]) is None:
        assert time.monotonic() < deadline, "the store was never joined"
        threading.Event().wait(0.02)
    assert backend.attempts >= 2
    store.close()
    assert store.exists(["k"]) is None


def test_an_exception_of_the_client_never_gets_out() -> None:
    class Broken(MemoryBackend):
        def exists(self, keys: object) -> list[bool]:
            raise RuntimeError("segfault in disguise")

    store = StoreClient(Broken(), (), lambda: None)
    assert store.start(wait=10)
    assert store.exists(["k"]) is None
    assert not store.breaker.closed
    store.close()

"""Each promise of the queue's docstring has a test of that name. Delays are tiny and only ordered, never measured."""

from __future__ import annotations

import asyncio

import pytest

from kvpool_operator.cluster.workqueue import WorkQueue


async def _take(queue: WorkQueue[str]) -> str:
    return await asyncio.wait_for(queue.get(), timeout=5)


async def test_a_key_added_many_times_is_worked_on_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(3):
        queue.add("a")
    assert await _take(queue) == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_a_key_added_while_worked_on_is_worked_on_once_more() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await _take(queue)
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await _take(queue) == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_one_key_is_never_in_two_workers_hands() -> None:
    queue: WorkQueue[str] = WorkQueue()
    holders: set[str] = set()
    overlaps: list[str] = []
    finished = 0

    async def worker() -> None:
        nonlocal finished
        while True:
            key = await queue.get()
            overlaps.extend({key} & holders)
            holders.add(key)
            await asyncio.sleep(0)
            holders.discard(key)
            finished += 1
            queue.done(key)

    workers = [asyncio.create_task(worker()) for _ in range(4)]
    for round_number in range(200):
        queue.add(f"key-{round_number % 3}")
        if round_number % 7 == 0:
            await asyncio.sleep(0)
    while len(queue) or holders:  # noqa: ASYNC110
        await asyncio.sleep(0)
    queue.close()
    await asyncio.gather(*workers, return_exceptions=True)
    assert overlaps == []
    assert finished >= 3


async def test_a_failed_key_backs_off_alone() -> None:
    queue: WorkQueue[str] = WorkQueue(base_delay=0.01, max_delay=0.05)
    queue.add("bad")
    await _take(queue)
    delays = [queue.retry("bad") for _ in range(5)]
    assert delays == [0.01, 0.02, 0.04, 0.05, 0.05]
    queue.done("bad")
    queue.add("good")
    assert await _take(queue) == "good"
    assert await _take(queue) == "bad"


async def test_success_starts_the_delays_again() -> None:
    queue: WorkQueue[str] = WorkQueue(base_delay=0.01)
    assert queue.retry("a") < queue.retry("a")
    queue.forget("a")
    assert queue.retry("a") == 0.01


async def test_of_several_delays_the_shortest_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 60)
    queue.add_after("a", 0.001)
    queue.add_after("a", 60)
    assert await _take(queue) == "a"


async def test_an_event_overtakes_a_delay() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 60)
    queue.add("a")
    assert await _take(queue) == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_closing_lets_waiting_workers_go() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.close()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, timeout=5)

from __future__ import annotations

import asyncio

import pytest

from kvpool_router.queueing import QueueFull, QueueTimeout, WaitingRoom


class Seats:
    """So many seats; a grant is a seat."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.order: list[str] = []

    def attempt(self, name: str) -> Seat | None:
        if not self.free:
            return None
        self.free -= 1
        self.order.append(name)
        return Seat(self)


class Seat:
    def __init__(self, seats: Seats) -> None:
        self._seats = seats

    def release(self) -> None:
        self._seats.free += 1


async def enter(room: WaitingRoom[Seat], seats: Seats, name: str, patience: float = 5, retry: bool = False) -> Seat:
    return await room.enter(lambda: seats.attempt(name), patience=patience, retry=retry)


async def waiting(room: WaitingRoom[Seat], seats: Seats, *names: str, retry: bool = False) -> list[asyncio.Task[Seat]]:
    tasks = []
    for name in names:
        before = len(room)
        tasks.append(asyncio.create_task(enter(room, seats, name, retry=retry)))
        await asyncio.sleep(0)  # one turn of the loop is all a task needs to reach the queue
        assert len(room) == before + 1
    return tasks


async def test_a_free_seat_is_taken_without_waiting() -> None:
    room: WaitingRoom[Seat] = WaitingRoom(0)
    await enter(room, Seats(1), "a")
    assert len(room) == 0


async def test_waiters_are_served_in_order_and_retries_before_newcomers() -> None:
    room: WaitingRoom[Seat] = WaitingRoom(10)
    seats = Seats(0)
    tasks = await waiting(room, seats, "a", "b")
    tasks += await waiting(room, seats, "r", retry=True)
    seats.free = 3
    room.wake()
    await asyncio.gather(*tasks)
    assert seats.order == ["r", "a", "b"]


async def test_a_newcomer_does_not_overtake_those_who_wait() -> None:
    room: WaitingRoom[Seat] = WaitingRoom(10)
    seats = Seats(0)
    first = await waiting(room, seats, "a")
    seats.free = 1
    second = await waiting(room, seats, "b")
    room.wake()
    await first[0]
    assert seats.order == ["a"]
    second[0].cancel()


async def test_the_room_holds_so_many_and_no_more() -> None:
    room: WaitingRoom[Seat] = WaitingRoom(1)
    seats = Seats(0)
    tasks = await waiting(room, seats, "a")
    with pytest.raises(QueueFull):
        await enter(room, seats, "b")
    tasks[0].cancel()


@pytest.mark.parametrize("patience", [0.0, -1.0, 0.02])
async def test_who_waited_long_enough_leaves_empty_handed(patience: float) -> None:
    room: WaitingRoom[Seat] = WaitingRoom(1)
    seats = Seats(0)
    with pytest.raises(QueueTimeout):
        await enter(room, seats, "a", patience)
    assert len(room) == 0
    seats.free = 1
    room.wake()
    assert seats.free == 1


async def test_a_grant_that_meets_a_cancelled_waiter_is_given_back() -> None:
    room: WaitingRoom[Seat] = WaitingRoom(1)
    seats = Seats(0)
    [task] = await waiting(room, seats, "a")
    seats.free = 1
    room.wake()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seats.free == 1


async def test_a_waiter_that_left_takes_no_seat() -> None:
    room: WaitingRoom[Seat] = WaitingRoom(2)
    seats = Seats(0)
    gone, stays = await waiting(room, seats, "gone", "stays")
    gone.cancel()
    seats.free = 1
    room.wake()
    await stays
    assert seats.order == ["stays"]

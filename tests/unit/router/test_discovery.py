"""The list-and-watch loop against a scripted API server port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from kvpool_router import discovery
from kvpool_router.config import load
from kvpool_router.discovery import SliceDiscovery
from kvpool_router.metrics import Metrics
from kvpool_router.pool import TargetPool
from kvpool_router.slices import Expired
from kvpool_router.targets import Endpoint


def piece(name: str, version: str = "1", address: str = "10.0.0.1") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "resourceVersion": version, "labels": {"kvpool.dev/role-type": "Mixed"}},
        "ports": [{"name": "api-0", "port": 8000}],
        "endpoints": [{"addresses": [address], "targetRef": {"name": name, "uid": name}}],
    }


def event(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


class Script:
    """Answers to list and watch, in order; the last watch stays open."""

    def __init__(self, lists: list[Any], watches: list[list[Any]]) -> None:
        self.lists = lists
        self.watches = watches
        self.versions: list[str] = []
        self.done = asyncio.Event()

    async def list(self) -> tuple[list[dict[str, Any]], str]:
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer, "10"

    async def watch(self, resource_version: str) -> AsyncIterator[dict[str, Any]]:
        self.versions.append(resource_version)
        for item in self.watches.pop(0):
            if isinstance(item, Exception):
                raise item
            yield item
        if not self.watches:
            self.done.set()
            await asyncio.Event().wait()


async def play(script: Script) -> tuple[list[list[str]], Metrics]:
    """Run the loop until the script is at its end; the published sets of pods."""
    published: list[list[str]] = []

    def publish(endpoints: Iterable[Endpoint]) -> None:
        published.append([e.pod for e in endpoints])

    metrics = Metrics(TargetPool(load(["--static", "x"], {})))
    task = asyncio.create_task(SliceDiscovery(script, publish, metrics).run())
    async with asyncio.timeout(5):
        await script.done.wait()
    task.cancel()
    return published, metrics


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "_BACKOFF_SECONDS", (0.0,))


def _bookmark(version: str) -> dict[str, Any]:
    return event("BOOKMARK", {"metadata": {"resourceVersion": version}})


async def test_events_change_the_set_that_the_list_gave() -> None:
    script = Script(
        [[piece("a")]],
        [[event("ADDED", piece("b", "11")), event("DELETED", piece("a", "12")), event("MODIFIED", piece("b", "13"))]],
    )
    published, _ = await play(script)
    assert published == [["a"], ["a", "b"], ["b"], ["b"]]


async def test_a_watch_that_ends_goes_on_from_the_last_version_it_saw() -> None:
    script = Script([[piece("a")]], [[event("ADDED", piece("b", "11"))], [_bookmark("20")], []])
    published, _ = await play(script)
    assert script.versions == ["10", "11", "20"]
    assert published == [["a"], ["a", "b"]]


Make = Callable[[], Exception]


@pytest.mark.parametrize("failure, reason", [(Expired, "expired"), (lambda: OSError("gone"), "error")])
async def test_after_a_broken_watch_a_new_list_replaces_everything(failure: Make, reason: str) -> None:
    script = Script([[piece("a"), piece("b")], [piece("b")]], [[failure()], []])
    published, metrics = await play(script)
    assert published == [["a", "b"], ["b"]]
    assert metrics.registry.get_sample_value("kvpool_router_discovery_relists_total", {"reason": reason}) == 1


async def test_while_the_api_server_is_away_nothing_is_taken_back() -> None:
    script = Script([[piece("a")], OSError("refused"), OSError("refused"), [piece("a"), piece("b")]], [[OSError()], []])
    published, metrics = await play(script)
    assert published == [["a"], ["a", "b"]]
    assert metrics.registry.get_sample_value("kvpool_router_discovery_connected") == 1

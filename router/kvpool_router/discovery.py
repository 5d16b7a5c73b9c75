"""Where targets come from: EndpointSlices by list and watch, or a file.

Promises: every list replaces the whole set, so nothing survives a missed deletion; a watch that ends goes on from where
it was; 410 and broken connections lead to a new list, with backoff; while the API server is away the last known targets
stay in use, because engines do not die with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kvpool_router.config import Config
from kvpool_router.metrics import Metrics
from kvpool_router.slices import Expired, SliceSource
from kvpool_router.targets import GROUP_LABEL, BadTargets, Endpoint, endpoints_from_slices, endpoints_from_static

_log = logging.getLogger(__name__)
_WATCH_SECONDS = 240
_BACKOFF_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
_STATIC_SECONDS = 1.0

Publish = Callable[[Iterable[Endpoint]], None]


class SliceDiscovery:
    """Keeps the targets equal to the group's EndpointSlices."""

    def __init__(self, source: SliceSource, publish: Publish, metrics: Metrics) -> None:
        self._source = source
        self._publish = publish
        self._metrics = metrics
        self._slices: dict[str, Mapping[str, Any]] = {}

    async def run(self) -> None:
        """List and watch until cancelled."""
        failures, reason = 0, "start"
        while True:
            try:
                version = await self._list(reason)
                while True:
                    version = await self._watch(version)
                    failures = 0
            except Expired:
                reason = "expired"
            except asyncio.CancelledError:
                raise
            except Exception as error:
                reason = "error"
                self._metrics.discovery_connected.set(0)
                delay = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)] * random.uniform(0.8, 1.2)
                failures += 1
                _log.warning("EndpointSlices cannot be read, next try in %.1f s: %s", delay, _short(error))
                await asyncio.sleep(delay)

    async def _list(self, reason: str) -> str:
        slices, version = await self._source.list()
        self._metrics.relists.labels(reason).inc()
        self._metrics.discovery_connected.set(1)
        self._slices = {_name(piece): piece for piece in slices}
        self._publish(endpoints_from_slices(self._slices.values()))
        return version

    async def _watch(self, version: str) -> str:
        """Follow one watch to its end; return where the next one starts."""
        async for event in self._source.watch(version):
            piece = event["object"]
            version = piece["metadata"]["resourceVersion"]
            kind = event["type"]
            if kind == "BOOKMARK":
                continue
            if kind == "DELETED":
                self._slices.pop(_name(piece), None)
            else:
                self._slices[_name(piece)] = piece
            self._publish(endpoints_from_slices(self._slices.values()))
        return version


def _name(piece: Mapping[str, Any]) -> str:
    return str(piece["metadata"]["name"])


def _short(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200] or type(error).__name__


class FileDiscovery:
    """Keeps the targets equal to a JSON file; a file that turns bad leaves the last good targets in use."""

    def __init__(self, path: Path, publish: Publish, metrics: Metrics) -> None:
        self._path = path
        self._publish = publish
        self._metrics = metrics
        self._text: str | None = None

    async def run(self) -> None:
        """Read the file again and again; changes count from the next second on."""
        while True:
            try:
                self.read()
            except BadTargets as error:
                self._metrics.discovery_connected.set(0)
                _log.warning("%s: %s", self._path, error)
            await asyncio.sleep(_STATIC_SECONDS)

    def read(self) -> None:
        """Take over the file's targets if its text changed; BadTargets says what is wrong with it."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadTargets(f"cannot be read: {error}") from error
        if text == self._text:
            return
        try:
            endpoints = endpoints_from_static(json.loads(text))
        except ValueError as error:
            raise BadTargets(str(error)) from error
        self._text = text
        self._metrics.discovery_connected.set(1)
        self._metrics.relists.labels("file").inc()
        self._publish(endpoints)


async def kubernetes_source(config: Config) -> SliceSource:
    """The group's EndpointSlices on the cluster this process runs in, or the one its kubeconfig names."""
    from kvpool_router.kubernetes_api import KubernetesSlices  # its import costs seconds; a static router needs none

    return await KubernetesSlices.connect(config, f"{GROUP_LABEL}={config.group}", _WATCH_SECONDS)

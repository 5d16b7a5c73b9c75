"""Start, run and stop one router.

SIGTERM (or SIGINT): /readyz turns 503 at once; requests are accepted for the shutdown delay, until the Service has
forgotten this pod; then the port closes, requests in flight get the drain limit, and the process exits 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence

from aiohttp import web

from kvpool_router.access_log import AccessLog, configure_events
from kvpool_router.config import Config, ConfigError, load
from kvpool_router.discovery import FileDiscovery, SliceDiscovery, kubernetes_source
from kvpool_router.health import HealthChecks
from kvpool_router.metrics import Metrics
from kvpool_router.pool import TargetPool
from kvpool_router.server import Surface
from kvpool_router.targets import BadTargets
from kvpool_router.wire import EngineClient

_log = logging.getLogger(__name__)


class Router:
    """A running router: its surface, its port and its background work."""

    def __init__(self, config: Config, surface: Surface, runner: web.ServerRunner, site: web.TCPSite) -> None:
        self._config = config
        self._runner = runner
        self._site = site
        self.surface = surface

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._runner.addresses[0][1])

    async def drain(self) -> None:
        """Stop as the module promises; returns when no request is left or the limit is reached."""
        self.surface.draining = True
        await asyncio.sleep(self._config.shutdown_delay_seconds)
        await self._site.stop()
        for connection in self._runner.server.connections if self._runner.server else ():
            if connection in self.surface.busy:
                connection.close()  # after its answer
            else:
                connection.force_close()
        try:
            async with asyncio.timeout(self._config.drain_seconds):
                await self.surface.idle.wait()
        except TimeoutError:
            _log.warning("%d requests are cut off after the drain limit", len(self.surface.busy))


@contextlib.asynccontextmanager
async def running(config: Config, access_log: AccessLog) -> AsyncIterator[Router]:
    """A router that listens, discovers and checks; all of it ends with the context."""
    pool = TargetPool(config)
    metrics = Metrics(pool)
    client = EngineClient(config.connect_timeout_seconds)
    async with asyncio.TaskGroup() as background:
        surface = Surface(config, pool, client, metrics, access_log)
        if config.static is not None:
            file = FileDiscovery(config.static, pool.replace, metrics)
            file.read()
            tasks = [background.create_task(file.run())]
        else:
            discovery = SliceDiscovery(await kubernetes_source(config), pool.replace, metrics)
            tasks = [background.create_task(discovery.run())]
        tasks.append(background.create_task(HealthChecks(config, pool, client).run()))
        runner, site = await _listen(config, surface)
        try:
            yield Router(config, surface, runner, site)
        finally:
            await runner.cleanup()
            client.close()
            for task in tasks:
                task.cancel()


async def _listen(config: Config, surface: Surface) -> tuple[web.ServerRunner, web.TCPSite]:
    loop = asyncio.get_running_loop()

    def new_request(message, payload, protocol, writer, task):  # type: ignore[no-untyped-def]
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=config.max_body_bytes)

    server = web.Server(surface.handle, request_factory=new_request, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, config.host or None, config.port, backlog=1024)
    await site.start()
    return runner, site


async def _serve(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(config, AccessLog(config)) as router:
        _log.info("listening on port %d for group %s, transfer %s", router.port, config.group or "-", config.transfer)
        await stop.wait()
        _log.info("shutting down")
        await router.drain()
    _log.info("stopped")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `kvpool-router`; 2 for wrong flags, 1 when it cannot start."""
    try:
        config = load(sys.argv[1:] if argv is None else argv, os.environ)
    except ConfigError as error:
        print(f"kvpool-router: {error}", file=sys.stderr)
        return 2
    configure_events()
    try:
        asyncio.run(_serve(config))
    except (OSError, BadTargets) as error:
        print(f"kvpool-router: {error}", file=sys.stderr)
        return 1
    except BaseExceptionGroup as group:
        for cause in group.exceptions:
            print(f"kvpool-router: {type(cause).__name__}: {cause}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

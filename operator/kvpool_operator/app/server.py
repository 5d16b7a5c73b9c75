"""/healthz, /readyz and /metrics."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import generate_latest

from kvpool_operator.app.metrics import Metrics

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def serve(
    health_port: int, metrics_port: int, metrics: Metrics, is_ready: Callable[[], bool]
) -> list[web.AppRunner]:
    """Start both servers; the caller cleans the runners up."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        ready = is_ready()
        return web.Response(status=200 if ready else 503, text="ok\n" if ready else "watches are starting\n")

    async def metrics_text(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": _CONTENT_TYPE})

    health, exposition = web.Application(), web.Application()
    health.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    exposition.add_routes([web.get("/metrics", metrics_text)])
    return [await _start(health, health_port), await _start(exposition, metrics_port)]


async def _start(application: web.Application, port: int) -> web.AppRunner:
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, None, port).start()
    return runner

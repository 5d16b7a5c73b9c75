"""Active health checks: they find the engine that accepts connections and never answers (a frozen process).

One check per target and period; a target whose check still runs is not checked again. What follows from a missed
check is the pool's to decide.
"""

from __future__ import annotations

import asyncio

from kvpool_router.config import Config
from kvpool_router.pool import Target, TargetPool
from kvpool_router.targets import Phase
from kvpool_router.upstream import is_alive
from kvpool_router.wire import EngineClient


class HealthChecks:
    """The checking loop of one router."""

    def __init__(self, config: Config, pool: TargetPool, client: EngineClient) -> None:
        self._config = config
        self._pool = pool
        self._client = client
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Check until cancelled; returns at once when checks are off."""
        if not self._config.health_interval_seconds:
            return
        try:
            while True:
                for target in self._pool.targets:
                    if target.key not in self._running and target.endpoint.phase is Phase.READY:
                        task = asyncio.create_task(self._check(target), name=f"health {target.url}")
                        self._running[target.key] = task
                await asyncio.sleep(self._config.health_interval_seconds)
        finally:
            for task in self._running.values():
                task.cancel()

    async def _check(self, target: Target) -> None:
        """Check once; a miss is checked again at once, so that a frozen engine is known within two time limits."""
        try:
            for _ in range(2):
                alive = await is_alive(self._client, target, self._config.health_timeout_seconds)
                self._pool.health(target, alive=alive)
                if alive:
                    return
        finally:
            self._running.pop(target.key, None)

"""Only the leader acts: workers and the resync run inside the Lease's hold and end with it.

A standby watches like the leader and lets its queue collect keys, so that it starts with everything that is due.
"""

from __future__ import annotations

import asyncio
import logging

from kvpool_operator.app.metrics import Metrics
from kvpool_operator.app.routing import Key
from kvpool_operator.app.settings import Settings
from kvpool_operator.app.workers import resync, work
from kvpool_operator.cluster.lease import LeaseElector
from kvpool_operator.cluster.workqueue import WorkQueue
from kvpool_operator.reconcile.context import Context

RELEASE_SECONDS = 2.0

log = logging.getLogger("kvpool")


async def lead(
    settings: Settings, queue: WorkQueue[Key], context: Context, metrics: Metrics, elector: LeaseElector | None
) -> None:
    """Wait for the Lease, act until cancelled, and give it back; raises if it is lost or a worker dies.

    Without an elector (no namespace to keep a Lease in) this process acts at once: then it must be the only one.
    """
    if elector:
        metrics.leader.set(0)
        await elector.acquire()
    metrics.leader.set(1)
    try:
        async with asyncio.TaskGroup() as acting:
            if elector:
                acting.create_task(elector.hold())
            for _ in range(settings.workers):
                acting.create_task(work(queue, context, metrics))
            acting.create_task(resync(queue, context.api, settings.namespaces, settings.resync_seconds))
    finally:
        metrics.leader.set(0)
        if elector:
            await _give_back(elector)


async def _give_back(elector: LeaseElector) -> None:
    try:
        await asyncio.wait_for(elector.release(), RELEASE_SECONDS)
    except TimeoutError:
        log.warning("the lease was not released in time; the next leader waits until it expires")

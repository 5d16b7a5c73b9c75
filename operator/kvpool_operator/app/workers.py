"""Workers: take a key, reconcile, and turn errors into what happens next. One object's error never blocks another."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from kvpool_operator.app.metrics import Metrics
from kvpool_operator.app.routing import Key
from kvpool_operator.cluster.api import ClusterAPI
from kvpool_operator.cluster.errors import ApiError, ObserveAgainError, TransientError
from kvpool_operator.cluster.workqueue import WorkQueue
from kvpool_operator.reconcile.context import Context, Report
from kvpool_operator.reconcile.group import reconcile_group
from kvpool_operator.reconcile.pool import reconcile_pool

Reconciler = Callable[[Context, str, str], Awaitable[Report]]
RECONCILERS: Mapping[str, Reconciler] = MappingProxyType({"KVPool": reconcile_pool, "InferenceGroup": reconcile_group})

log = logging.getLogger("kvpool")


async def work(queue: WorkQueue[Key], context: Context, metrics: Metrics) -> None:
    """One worker; runs until the queue closes."""
    while True:
        key = await queue.get()
        metrics.queue_depth.set(len(queue))
        try:
            await _reconcile_once(queue, key, context, metrics)
        finally:
            queue.done(key)


async def _reconcile_once(queue: WorkQueue[Key], key: Key, context: Context, metrics: Metrics) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    fields = {"kind": key.kind, "namespace": key.namespace, "name": key.name}
    result = "ok"
    try:
        report = await RECONCILERS[key.kind](context, key.namespace, key.name)
    except ObserveAgainError as error:
        result = "observe_again"
        delay = queue.retry(key)
        log.debug("looking again: %s", error, extra={"fields": {**fields, "retry_seconds": delay}})
    except TransientError as error:
        result = "transient"
        delay = queue.retry(key)
        log.warning(
            "the API server did not answer as it should: %s",
            error,
            extra={"fields": {**fields, "retry_seconds": delay}},
        )
    except ApiError as error:
        result = "refused"
        delay = queue.retry(key)
        log.error("the API server refused a request: %s", error, extra={"fields": {**fields, "retry_seconds": delay}})
    except Exception:
        result = "error"
        delay = queue.retry(key)
        log.exception("reconcile failed", extra={"fields": {**fields, "retry_seconds": delay}})
    else:
        queue.forget(key)
        if report.requeue_after is not None:
            queue.add_after(key, report.requeue_after)
        _account(key, report, metrics, fields, loop.time() - started)
    metrics.reconciles.labels(key.kind, result).inc()
    metrics.seconds.labels(key.kind).observe(loop.time() - started)


def _account(key: Key, report: Report, metrics: Metrics, fields: Mapping[str, str], seconds: float) -> None:
    if report.generation is None:
        metrics.forget_object(*key)
        return
    metrics.stalled.labels(*key).set(1 if report.stalled else 0)
    metrics.writes.labels(key.kind).inc(len(report.written))
    if report.written:
        outcome = {
            "generation": report.generation,
            "seconds": round(seconds, 3),
            "written": list(report.written),
            "stalled": report.stalled,
        }
        log.info("reconciled", extra={"fields": {**fields, **outcome}})


async def resync(queue: WorkQueue[Key], api: ClusterAPI, namespaces: tuple[str, ...], seconds: float) -> None:
    """Make every object due now and then, in case an event was lost: one LIST a kind, jittered by a tenth."""
    while True:
        try:
            for kind in RECONCILERS:
                for namespace in namespaces or (None,):
                    for obj in await api.list(kind, namespace):
                        queue.add(Key(kind, obj["metadata"]["namespace"], obj["metadata"]["name"]))
            wait = seconds * random.uniform(0.9, 1.1)
        except ApiError as error:
            log.warning("resync could not list: %s", error)
            wait = min(seconds, 5.0)
        await asyncio.sleep(wait)

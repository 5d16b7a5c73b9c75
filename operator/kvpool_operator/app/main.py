"""The operator process: watches feed the queue, the leader's workers empty it, and everything ends together."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import kopf
from kubernetes.aio import config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from kvpool_operator.app.leading import lead
from kvpool_operator.app.logs import configure_logging
from kvpool_operator.app.metrics import Metrics
from kvpool_operator.app.routing import Key, Router
from kvpool_operator.app.server import serve
from kvpool_operator.app.settings import Settings, parse_settings
from kvpool_operator.app.watching import build_registry, build_settings
from kvpool_operator.cluster.api import KubernetesAPI
from kvpool_operator.cluster.lease import LeaseElector
from kvpool_operator.cluster.workqueue import WorkQueue
from kvpool_operator.reconcile.context import Context

log = logging.getLogger("kvpool")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `kvpool-operator`; exit code 1 when leadership or a worker was lost, so that it starts anew."""
    host = f"{socket.gethostname()}-{os.getpid()}"
    settings = parse_settings(sys.argv[1:] if argv is None else argv, os.environ, host)
    configure_logging(settings.log_format, settings.log_level)
    return asyncio.run(run(settings))


async def run(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT, or until something that must live ends."""
    stop, stop_watching, ready = asyncio.Event(), asyncio.Event(), asyncio.Event()
    metrics = Metrics()
    queue: WorkQueue[Key] = WorkQueue(on_wait=metrics.queue_seconds.observe)
    async with ApiClient(configuration=await load_configuration()) as client:
        context = Context(
            KubernetesAPI(client, metrics.count_request), settings.defaults(), settings.namespaces, utc_now
        )
        runners = await serve(settings.health_port, settings.metrics_port, metrics, ready.is_set)
        leading = asyncio.create_task(lead(settings, queue, context, metrics, _elector(settings, context)))
        leading.add_done_callback(lambda _: stop.set())
        stopping = asyncio.create_task(_stop_in_order(stop, leading, stop_watching))
        signals = asyncio.create_task(_take_signals(ready, stop))
        log.info("kvpool operator starts")
        try:
            await kopf.operator(
                registry=build_registry(queue, Router()),
                settings=build_settings(),
                standalone=True,
                clusterwide=not settings.namespaces,
                namespaces=settings.namespaces,
                stop_flag=stop_watching,
                ready_flag=ready,
            )
        finally:
            log.info("kvpool operator stops")
            signals.cancel()
            stop.set()
            await stopping
            queue.close()
            for runner in runners:
                await runner.cleanup()
    return _exit_code(leading)


async def _take_signals(ready: asyncio.Event, stop: asyncio.Event) -> None:
    """Our signal handlers instead of kopf's, which it installs while it starts: theirs would end watches first."""
    await ready.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _stop_in_order(stop: asyncio.Event, leading: asyncio.Task[None], stop_watching: asyncio.Event) -> None:
    """The Lease goes back first, so that a standby takes over at once; kopf, when it ends, cancels whatever runs."""
    await stop.wait()
    leading.cancel()
    await asyncio.wait([leading])
    stop_watching.set()


def _exit_code(leading: asyncio.Task[None]) -> int:
    if leading.cancelled() or (error := leading.exception()) is None:
        return 0
    log.error("ended by an error", exc_info=error)
    return 1


def _elector(settings: Settings, context: Context) -> LeaseElector | None:
    if not settings.lease_namespace:
        return None
    return LeaseElector(
        context.api, settings.lease_namespace, settings.lease_name, settings.identity, micro_now, time.monotonic
    )


async def load_configuration() -> Configuration:
    """In a pod its service account, elsewhere the kubeconfig."""
    configuration = Configuration()
    if "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
        config.load_incluster_config(client_configuration=configuration)
    else:
        await config.load_kube_config(client_configuration=configuration)
    return configuration


def utc_now() -> str:
    """The time as conditions want it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_now() -> str:
    """The time as Leases want it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


if __name__ == "__main__":
    sys.exit(main())

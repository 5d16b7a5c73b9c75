"""The operator process: watches feed the queue, workers empty it, and everything ends together."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import kopf
from kubernetes.aio import config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from kvpool_operator.app.logs import configure_logging
from kvpool_operator.app.metrics import Metrics
from kvpool_operator.app.routing import Key, Router
from kvpool_operator.app.server import serve
from kvpool_operator.app.settings import Settings, parse_settings
from kvpool_operator.app.watching import build_registry, build_settings
from kvpool_operator.app.workers import resync, work
from kvpool_operator.cluster.api import KubernetesAPI
from kvpool_operator.cluster.workqueue import WorkQueue
from kvpool_operator.reconcile.context import Context

log = logging.getLogger("kvpool")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `kvpool-operator`."""
    settings = parse_settings(sys.argv[1:] if argv is None else argv)
    configure_logging(settings.log_format, settings.log_level)
    asyncio.run(run(settings))
    return 0


async def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT, or until a watch dies for good."""
    stop, ready = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    metrics = Metrics()
    queue: WorkQueue[Key] = WorkQueue(on_wait=metrics.queue_seconds.observe)
    async with ApiClient(configuration=await load_configuration()) as client:
        api = KubernetesAPI(client, metrics.count_request)
        context = Context(api, settings.defaults(), settings.namespaces, utc_now)
        runners = await serve(settings.health_port, settings.metrics_port, metrics, ready.is_set)
        tasks = [asyncio.create_task(work(queue, context, metrics)) for _ in range(settings.workers)]
        tasks.append(asyncio.create_task(resync(queue, api, settings.namespaces, settings.resync_seconds)))
        for task in tasks:
            task.add_done_callback(lambda _: stop.set())  # a worker that dies must not leave a half-alive operator
        log.info("kvpool operator starts")
        try:
            await kopf.operator(
                registry=build_registry(queue, Router()),
                settings=build_settings(),
                standalone=True,
                clusterwide=not settings.namespaces,
                namespaces=settings.namespaces,
                stop_flag=stop,
                ready_flag=ready,
            )
        finally:
            log.info("kvpool operator stops")
            queue.close()
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for runner in runners:
                await runner.cleanup()
    for result in results:
        if isinstance(result, Exception):
            raise result


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


if __name__ == "__main__":
    sys.exit(main())

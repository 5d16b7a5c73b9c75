"""What an installation sets, as flags of `kvpool-operator`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvpool_operator.plan.facts import Defaults


@dataclass(frozen=True, slots=True)
class Settings:
    """The flags, read once."""

    connector_image: str
    """Carrier of connector and launcher, copied into every engine pod."""
    router_image: str
    """Image of the routers."""
    image_pull_policy: str | None
    """Pull policy of both; the cluster's default when not set."""
    namespaces: tuple[str, ...]
    """Namespaces to watch; empty means all."""
    workers: int
    """Objects that are reconciled at the same time."""
    resync_seconds: float
    """How often everything is looked at without an event; jittered by a tenth."""
    health_port: int
    """Port of /healthz and /readyz."""
    metrics_port: int
    """Port of /metrics."""
    lease_namespace: str
    """Namespace of the Lease; empty means that this process is the only one."""
    lease_name: str
    identity: str
    """Who this process is in the Lease."""
    log_format: str
    log_level: str

    def defaults(self) -> Defaults:
        """What plans need to know of the installation."""
        return Defaults(self.connector_image, self.router_image, self.image_pull_policy)


def parse_settings(argv: Sequence[str], environ: Mapping[str, str], host: str) -> Settings:
    """Settings from the command line and what the pod knows of itself; exits with a message that names a wrong flag."""
    parser = argparse.ArgumentParser(
        prog="kvpool-operator",
        description="Makes KVPools and InferenceGroups real: stores, engines and routers on Kubernetes.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--connector-image", required=True, help="image that carries connector and launcher")
    parser.add_argument("--router-image", required=True, help="image of the routers")
    parser.add_argument("--image-pull-policy", choices=["Always", "IfNotPresent", "Never"], help="of both images")
    parser.add_argument("--namespace", action="append", default=[], help="watch this namespace; repeat for several")
    parser.add_argument("--workers", type=int, default=8, help="objects reconciled at the same time")
    parser.add_argument("--resync-seconds", type=float, default=300.0, help="look at everything this often")
    parser.add_argument("--health-port", type=int, default=8080, help="port of /healthz and /readyz")
    parser.add_argument("--metrics-port", type=int, default=8081, help="port of /metrics")
    parser.add_argument(
        "--lease-namespace",
        default=environ.get("POD_NAMESPACE", ""),
        help="keep a Lease there, so that one of several operators acts; none when empty",
    )
    parser.add_argument("--lease-name", default="kvpool-operator", help="name of the Lease")
    parser.add_argument("--identity", default=environ.get("POD_NAME", host), help="this process in the Lease")
    parser.add_argument("--log-format", choices=["json", "text"], default="json", help="one line per event")
    parser.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], default="info", help="least level"
    )
    args = parser.parse_args(argv)
    return Settings(
        connector_image=args.connector_image,
        router_image=args.router_image,
        image_pull_policy=args.image_pull_policy,
        namespaces=tuple(args.namespace),
        workers=args.workers,
        resync_seconds=args.resync_seconds,
        health_port=args.health_port,
        metrics_port=args.metrics_port,
        lease_namespace=args.lease_namespace,
        lease_name=args.lease_name,
        identity=args.identity,
        log_format=args.log_format,
        log_level=args.log_level,
    )

"""etcd, the API server, the controller-manager and the scheduler, as plain processes on loopback."""

from __future__ import annotations

from pathlib import Path

from devcluster.api import Api
from devcluster.pki import make_pki
from devcluster.processes import ProcessTable
from devcluster.profiles import Profile
from devcluster.toolchain import Tools

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# The default of 20 requests a second makes roll-outs crawl.
_CLIENT_RATE = ("--kube-api-qps", "500", "--kube-api-burst", "1000")
# Two cores are shared with the tests: collecting garbage less often costs memory that is there.
_ENVIRONMENT = {"GOGC": "200"}


def start_store_and_api(profile: Profile, tools: Tools, processes: ProcessTable, node_name: str) -> None:
    """Start etcd and the API server; returns before they are ready, so that the caller can do other things."""
    client_url = f"http://127.0.0.1:{profile.etcd_port}"
    peer_url = f"http://127.0.0.1:{profile.etcd_peer_port}"
    listen = ("--listen-client-urls", client_url, "--advertise-client-urls", client_url, "--listen-peer-urls", peer_url)
    member = ("--initial-advertise-peer-urls", peer_url, "--initial-cluster", f"default={peer_url}")
    # What a test cluster holds is worth no disk flush.
    quick = ("--unsafe-no-fsync", "--logger", "zap", "--log-level", "warn")
    data = ("--data-dir", profile.folder / "etcd")
    processes.start("etcd", tools.program("etcd"), *data, *listen, *member, *quick, env=_ENVIRONMENT)
    make_pki(profile, node_name)  # etcd starts meanwhile: on loopback it needs no certificate
    arguments = api_server_arguments(profile, client_url)
    processes.start("kube-apiserver", tools.program("kube-apiserver"), *arguments, env=_ENVIRONMENT)


def api_server_arguments(profile: Profile, etcd_url: str) -> list[str | Path]:
    """The API server's flags."""
    pki = profile.pki
    return [
        *("--etcd-servers", etcd_url),
        *("--secure-port", str(profile.api_port)),
        # Pods reach it at the bridge's address.
        *("--bind-address", "0.0.0.0" if profile.has_node else "127.0.0.1"),
        *("--advertise-address", profile.advertise_address),
        *("--cert-dir", pki),
        *("--tls-cert-file", pki / "apiserver.crt", "--tls-private-key-file", pki / "apiserver.key"),
        *("--client-ca-file", pki / "ca.crt"),
        *("--service-account-key-file", pki / "sa.key", "--service-account-signing-key-file", pki / "sa.key"),
        *("--service-account-issuer", "https://kubernetes.default.svc"),
        *("--service-cluster-ip-range", profile.service_cidr),
        *("--authorization-mode", "Node,RBAC"),
        "--allow-privileged=true",
        "--profiling=false",
        # For kubectl exec and logs. Addresses alone: nothing resolves the node's name.
        *("--kubelet-client-certificate", pki / "admin.crt", "--kubelet-client-key", pki / "admin.key"),
        *("--kubelet-preferred-address-types", "InternalIP"),
    ]


def start_controllers(profile: Profile, tools: Tools, processes: ProcessTable, controllers: str) -> None:
    """Start the controller-manager and the scheduler, once the API server lives."""
    start_controller_manager(profile, tools, processes, controllers)
    processes.start(
        "kube-scheduler",
        tools.program("kube-scheduler"),
        *("--kubeconfig", profile.folder / "scheduler.kubeconfig"),
        *("--leader-elect=false", "--profiling=false", "--bind-address", "127.0.0.1"),
        *("--secure-port", str(profile.scheduler_port)),
        *_CLIENT_RATE,
        env=_ENVIRONMENT,
    )


def start_controller_manager(profile: Profile, tools: Tools, processes: ProcessTable, controllers: str) -> None:
    """Start the controller-manager with this list of controllers (``*`` is all that are on by default)."""
    pki = profile.pki
    processes.start(
        "kube-controller-manager",
        tools.program("kube-controller-manager"),
        *("--kubeconfig", profile.folder / "controller-manager.kubeconfig"),
        *("--controllers", controllers),
        # A busy machine delays heartbeats; nothing would turn a simulated pod Ready again after that.
        *("--node-monitor-grace-period", "1h"),
        *("--service-account-private-key-file", pki / "sa.key", "--root-ca-file", pki / "ca.crt"),
        *("--cluster-signing-cert-file", pki / "ca.crt", "--cluster-signing-key-file", pki / "ca.key"),
        *("--use-service-account-credentials", "--leader-elect=false", "--profiling=false"),
        *("--bind-address", "127.0.0.1", "--secure-port", str(profile.controller_manager_port)),
        *_CLIENT_RATE,
        env=_ENVIRONMENT,
    )


def wait_until_alive(profile: Profile, processes: ProcessTable) -> Api:
    """Wait until the API server answers at all, and give a client for it."""
    api = Api(profile)
    processes.wait_for("the API server lives", lambda: api.ok("/livez"))
    return api


def wait_until_usable(processes: ProcessTable, api: Api, controllers: str) -> None:
    """Wait until pods could be created: that takes the default service account."""
    processes.wait_for("the API server is ready", lambda: api.ok("/readyz"))
    if controllers == "*":
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        processes.wait_for("the default service account exists", lambda: api.ok(account))
    else:
        processes.wait_for("the default namespace exists", lambda: api.ok("/api/v1/namespaces/default"))

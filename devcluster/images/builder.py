"""Running buildah so that nothing stays outside the cache: no mount, no folder, no container."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from devcluster.images.base import base_archive
from devcluster.images.catalogue import Image
from devcluster.packages import wheel_folder
from devcluster.paths import REPOSITORY, cache_root, write
from devcluster.shell import heartbeat, run, say

_MOST_LAYERS = 250
_COMPRESSION = ("--compression-format", "zstd", "--compression-level", "1")  # half the time of gzip

# buildah's root keeps a note of known layers here, and no setting moves it.
_BLOB_CACHE = Path("/var/lib/containers")


def _buildah(*arguments: str | Path) -> str:
    """Run buildah in a mount namespace of its own, with storage, lock files and scratch space in the cache."""
    home = cache_root() / "buildah"
    scratch = home / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    # Without this it makes /etc/cni for networks that no build here uses.
    config = home / "containers.conf"
    write(config, f'[network]\nnetwork_config_dir = "{home}/networks"\n')
    env = {**os.environ, "TMPDIR": str(scratch), "CONTAINERS_CONF": str(config)}
    storage = ("--root", home / "storage", "--runroot", home / "run", "--storage-driver", "overlay")
    fresh = not _BLOB_CACHE.exists()
    try:
        return run("unshare", "--mount", "--propagation", "private", "buildah", *storage, *arguments, env=env)
    finally:
        if fresh:
            shutil.rmtree(_BLOB_CACHE, ignore_errors=True)


def _ensure_base(name: str) -> None:
    if name not in _buildah("images", "--format", "{{.Name}}:{{.Tag}}").splitlines():
        _buildah("pull", "--quiet", f"oci-archive:{base_archive(name)}")


def _drop_old_layers() -> None:
    """Begin anew when the storage holds the layers of many past builds: buildah cannot tell which will be of use."""
    storage = cache_root() / "buildah" / "storage"
    if storage.exists() and sum(1 for _ in storage.glob("overlay/*/diff")) > _MOST_LAYERS:
        say("the build cache is full of old layers: emptying it")
        shutil.rmtree(storage)


def build(image: Image, base: str, target: Path) -> None:
    """Build an image and write it as an archive that containerd can load."""
    began = time.monotonic()
    with heartbeat(f"building the image {image.name}"):
        _drop_old_layers()
        _ensure_base(base)
        arguments: list[str | Path] = ["--build-arg", f"BASE={base}"]
        for name, value in image.arguments.items():
            arguments += ["--build-arg", f"{name}={value}"]
        if image.target:
            arguments += ["--target", image.target]
        if image.requirements:
            arguments += ["--build-context", f"wheels={_wheels(image.requirements)}"]
        flags = ("--quiet", "--pull=false", "--isolation", "chroot", "--layers")
        where = ("--file", image.dockerfile, "--tag", image.reference, REPOSITORY)
        _buildah("build", *flags, *arguments, *where)
        fresh = target.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        _buildah("push", "--quiet", *_COMPRESSION, image.reference, f"oci-archive:{fresh}:{image.reference}")
        fresh.replace(target)
    size = target.stat().st_size >> 20
    say(f"image {image.name} built in {time.monotonic() - began:.1f} s, {size} MiB")


def _wheels(name: str) -> Path:
    """One folder with the wheels of a requirements file and pip's own (links cost no space)."""
    sources = [wheel_folder(name), wheel_folder("pip")]
    target = cache_root() / "buildah" / "wheels" / sources[0].name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for wheel in (wheel for source in sources for wheel in source.glob("*.whl")):
        os.link(wheel, target / wheel.name)
    return target

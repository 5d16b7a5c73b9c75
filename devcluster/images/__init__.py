"""The project's images: built when their inputs changed, loaded into the node cluster when it lacks them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from devcluster import node
from devcluster.debian import ensure_packages
from devcluster.images.base import base_name
from devcluster.images.builder import build
from devcluster.images.catalogue import catalogue
from devcluster.paths import cache_root, locked, write
from devcluster.processes import ProcessTable
from devcluster.profiles import PROFILES
from devcluster.shell import DevclusterError, heartbeat, say

IMAGES = tuple(catalogue())


def ensure_images(names: tuple[str, ...] = ()) -> dict[str, Path]:
    """Build what is missing of these images (all if none is named), load it if the node is up; give the archives."""
    images = catalogue()
    for name in names:
        if name not in images:
            raise DevclusterError(f"no image {name}; there are {', '.join(images)}")
    if os.geteuid() != 0:
        raise DevclusterError("building images needs root")
    ensure_packages("images")
    base = base_name()
    archives = {}
    with locked("images"):
        folder = cache_root() / "images"
        folder.mkdir(parents=True, exist_ok=True)
        for name in names or tuple(images):
            image = images[name]
            archive = folder / f"{name}-{image.key(base)}.tar"
            if not archive.exists():
                build(image, base, archive)
                _remove_older(folder, name, archive)
            archives[image.reference] = archive
        if _node_is_up():
            _load_missing(archives)
    return archives


def _remove_older(folder: Path, name: str, newest: Path) -> None:
    """Keep one archive of each image: the layers of the others are in the build cache anyway."""
    for path in folder.glob(f"{name}-" + "[0-9a-f]" * 16 + ".tar"):
        if path != newest:
            path.unlink()


def _node_is_up() -> bool:
    return ProcessTable(PROFILES["node"].folder).alive("containerd")


def _load_missing(archives: dict[str, Path]) -> None:
    record = PROFILES["node"].folder / "images.json"
    loaded: dict[str, str] = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for reference, archive in archives.items():
        if loaded.get(reference) != archive.stem:
            load([archive])
            loaded[reference] = archive.stem
            write(record, json.dumps(loaded))


def load(archives: Iterable[Path]) -> None:
    """Import image archives into the node's containerd."""
    if not _node_is_up():
        raise DevclusterError("the node cluster is down: python3 -m devcluster up --profile node")
    for archive in archives:
        if not archive.exists():
            raise DevclusterError(f"no such file: {archive}")
        with heartbeat(f"loading {archive.name}"):
            node.ctr("images", "import", archive.resolve())
        say(f"loaded {archive.name}")

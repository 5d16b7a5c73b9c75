"""Where things lie: the repository, the cache that outlives a clone, and the run folder of each profile."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
REQUIREMENTS = REPOSITORY / "requirements"


def cache_root() -> Path:
    """The folder for everything that is made once: binaries, environments, wheels, images."""
    return Path(os.environ.get("KVPOOL_CACHE") or Path.home() / ".cache" / "kvpool")


def run_root() -> Path:
    """The folder above the profiles' run folders; it is gone when no profile runs."""
    if os.geteuid() == 0:
        return Path("/var/tmp/kvpool-devcluster")
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "kvpool-devcluster" if base else Path(f"/tmp/kvpool-devcluster-{os.geteuid()}")


def digest(parts: Iterable[Path | str], root: Path = REPOSITORY) -> str:
    """A short key of contents: strings as they are, files by name and bytes, folders by all files below."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            total.update(f"s{len(part)}:{part}".encode())
            continue
        for file in sorted(_files(part)):
            content = file.read_bytes()
            name = file.relative_to(root) if file.is_relative_to(root) else Path(file.name)
            mode = "x" if os.access(file, os.X_OK) else "-"
            total.update(f"f{name}:{mode}:{len(content)}:".encode())
            total.update(content)
    return total.hexdigest()[:16]


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        for folder, names, files in os.walk(path):
            names[:] = [name for name in names if name != "__pycache__"]
            yield from (Path(folder, name) for name in files if not name.endswith(".pyc"))
    elif path.exists():
        yield path


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock of this name across processes: what is made in the cache is made once."""
    folder = cache_root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.lock", "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def made_once(target: Path) -> Iterator[Path]:
    """Give a fresh folder that becomes `target` if the block succeeds, and vanishes if it does not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield fresh
        fresh.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file that others cannot read unless told so, making the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)

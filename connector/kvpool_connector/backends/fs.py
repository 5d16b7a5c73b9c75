"""A store in a folder, for tests with several engine processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from kvpool_connector.backends.base import Outcome, StoreUnavailable, Transfer
from kvpool_connector.backends.memory import read_pieces, write_pieces
from kvpool_connector.segments import Region


class FilesystemBackend:
    """An object a file. Removing the folder is this store's outage."""

    name = "fs"

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def setup(self, regions: Sequence[Region]) -> None:
        """Make the folder."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Which of the keys can be read."""
        self._require()
        return [self._path(key).exists() for key in keys]

    def put(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        """Store objects, first writer wins."""
        self._require()
        return [self._put(transfer) for transfer in transfers]

    def get(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        """Fill memory from objects."""
        self._require()
        return [self._get(transfer) for transfer in transfers]

    def health(self) -> bool:
        """Whether the folder is there."""
        return self._folder.is_dir()

    def remove(self, keys: Sequence[str]) -> None:
        """Forget objects."""
        for key in keys:
            self._path(key).unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing to leave."""

    def _require(self) -> None:
        if not self._folder.is_dir():
            raise StoreUnavailable(f"{self._folder} is gone")

    def _path(self, key: str) -> Path:
        return self._folder / key.replace("/", "!")

    def _put(self, transfer: Transfer) -> Outcome:
        path = self._path(transfer.key)
        if path.exists():
            return Outcome.OK
        scratch = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            scratch.write_bytes(read_pieces(transfer))
            scratch.replace(path)
        except OSError:
            return Outcome.FAILED
        return Outcome.OK

    def _get(self, transfer: Transfer) -> Outcome:
        try:
            data = self._path(transfer.key).read_bytes()
        except FileNotFoundError:
            return Outcome.MISS
        except OSError:
            return Outcome.FAILED
        return write_pieces(transfer, data)

"""The stores behind one protocol; `make_backend` is the table of their names."""

from __future__ import annotations

from kvpool_connector.backends.base import Backend, Outcome, StoreUnavailable
from kvpool_connector.options import ConnectorOptions

__all__ = ["Backend", "Outcome", "StoreUnavailable", "make_backend"]


def make_backend(options: ConnectorOptions) -> Backend:
    """The back end that the options name; its packages are imported here and nowhere else."""
    if options.backend == "mooncake":
        from kvpool_connector.backends.mooncake import MooncakeBackend, read_settings

        return MooncakeBackend(read_settings())
    if options.backend == "fs":
        from kvpool_connector.backends.fs import FilesystemBackend

        return FilesystemBackend(options.fs_path)
    from kvpool_connector.backends.memory import MemoryBackend

    return MemoryBackend()

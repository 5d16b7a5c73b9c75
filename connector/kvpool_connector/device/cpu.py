"""The CPU: work is done when the call returns."""

from __future__ import annotations

import platform

from kvpool_connector.device.base import Event


class _Done:
    def synchronize(self) -> None:
        """Nothing is ever pending."""


class CpuDevice:
    """vLLM packs blocks by the CPU's vector instructions, so they are part of the kind."""

    host_memory = True

    def __init__(self) -> None:
        import torch

        amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()
        self.kind = f"cpu-{platform.machine()}-{torch.backends.cpu.get_cpu_capability()}{'-AMX' if amx else ''}"

    def bind_thread(self) -> None:
        """Threads need nothing."""

    def record(self) -> Event:
        """An event that is over."""
        return _Done()

    def synchronize(self) -> None:
        """Nothing is ever pending."""

"""Ascend NPUs through torch_npu. Exercised by a fake torch_npu only, until a hardware checklist is signed."""

from __future__ import annotations

from typing import Any

from kvpool_connector.device.base import Event


class NpuDevice:
    """One NPU of this process."""

    kind = "npu"
    host_memory = False

    def __init__(self) -> None:
        import torch
        import torch_npu  # noqa: F401  registers torch.npu

        self._npu: Any = torch.npu
        self._index = self._npu.current_device()

    def bind_thread(self) -> None:
        """Ascend's transport needs a current device in every thread that calls it."""
        self._npu.set_device(self._index)

    def record(self) -> Event:
        """Mark the work on the current stream."""
        event: Event = self._npu.Event()
        event.record()  # type: ignore[attr-defined]
        return event

    def synchronize(self) -> None:
        """Wait for the current stream."""
        self._npu.current_stream().synchronize()

"""What differs between CPU and NPU; `current_device` picks by the platform's name."""

from __future__ import annotations

from kvpool_connector.device.base import Device

__all__ = ["Device", "current_device"]


def current_device(device_type: str) -> Device:
    """The adapter of this process's device."""
    if device_type == "cpu":
        from kvpool_connector.device.cpu import CpuDevice

        return CpuDevice()
    if device_type == "npu":
        from kvpool_connector.device.npu import NpuDevice

        return NpuDevice()
    raise ValueError(f"KVPoolConnector runs on cpu and npu, not on {device_type}")

"""Placeholder."""

from __future__ import annotations

from pathlib import Path

IMAGES: dict[str, str] = {}


def ensure_images(names: tuple[str, ...]) -> dict[str, Path]:
    """Placeholder."""
    return {}


def load(archives: list[Path]) -> None:
    """Placeholder."""

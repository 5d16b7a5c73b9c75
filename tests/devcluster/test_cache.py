"""What is made once is keyed by what it is made from."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster.images.catalogue import catalogue
from devcluster.paths import digest, made_once


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


CHANGES: dict[str, Callable[[Path], None]] = {
    "another content": lambda root: _write(root / "a/x.py", "2"),
    "another name": lambda root: os.rename(root / "a/x.py", root / "a/y.py"),
    "one more file": lambda root: _write(root / "a/b/z.py", ""),
    "an executable bit": lambda root: os.chmod(root / "a/x.py", 0o755),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_of_the_inputs_changes_the_key(tmp_path: Path, change: Callable[[Path], None]) -> None:
    _write(tmp_path / "a/x.py", "1")
    before = digest([tmp_path / "a"], tmp_path)
    change(tmp_path)
    assert digest([tmp_path / "a"], tmp_path) != before


def test_byte_code_and_file_times_do_not_change_the_key(tmp_path: Path) -> None:
    _write(tmp_path / "a/x.py", "1")
    before = digest([tmp_path / "a"], tmp_path)
    _write(tmp_path / "a/__pycache__/x.cpython-311.pyc", "code")
    os.utime(tmp_path / "a/x.py", (0, 0))
    assert digest([tmp_path / "a"], tmp_path) == before


def test_a_folder_whose_making_fails_is_not_there_and_leaves_no_scraps(tmp_path: Path) -> None:
    def fail_midway() -> None:
        with made_once(tmp_path / "cache" / "thing") as fresh:
            _write(fresh / "half", "")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_midway()
    assert list((tmp_path / "cache").iterdir()) == []


def test_images_have_different_keys_and_follow_their_base() -> None:
    images = catalogue().values()
    assert len({image.key("base:1") for image in images}) == len(images)
    for image in images:
        assert image.key("base:1") != image.key("base:2"), image.name


def test_every_source_of_an_image_exists() -> None:
    for image in catalogue().values():
        missing = [str(path) for path in (image.dockerfile, *image.sources) if not path.exists()]
        assert missing == [], image.name

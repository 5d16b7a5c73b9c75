"""The committed files are what their sources make, and the command says which are not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tools.generate as generate
from tools.generate.__main__ import main


def test_no_generated_file_has_drifted() -> None:
    assert generate.differing() == []


def test_a_stale_and_a_missing_file_are_named_and_mended(tmp_path: Path) -> None:
    texts = generate.generated()
    for path in [*texts, "docs/guide-coverage.toml"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(generate.REPOSITORY / path, tmp_path / path)
    stale, missing = "crds/kvpools.kvpool.dev.yaml", "docs/reasons.md"
    (tmp_path / stale).write_text("spec: {}\n")
    (tmp_path / missing).unlink()
    assert sorted(generate.differing(tmp_path)) == [stale, missing]
    assert sorted(generate.write(tmp_path)) == [stale, missing]
    assert generate.differing(tmp_path) == []


def test_check_exits_with_1_and_names_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"]) == 0
    monkeypatch.setattr("tools.generate.__main__.differing", lambda: ["docs/api.md"])
    assert main(["--check"]) == 1
    assert "docs/api.md" in capsys.readouterr().err

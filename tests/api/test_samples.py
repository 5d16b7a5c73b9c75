"""Samples are what people copy first: the API server takes each under strict validation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kubectl import Kubectl

pytestmark = [pytest.mark.api, pytest.mark.usefixtures("crds")]

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "samples").glob("*.yaml"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_sample_is_accepted(kubectl: Kubectl, namespace: str, sample: Path) -> None:
    kubectl.run(
        "apply", "--namespace", namespace, "--server-side", "--validate=strict", "--dry-run=server", "-f", sample
    )


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_sample_can_be_applied_the_old_way_too(kubectl: Kubectl, namespace: str, sample: Path) -> None:
    """Client-side apply writes the object into an annotation, and strict validation runs in the server as well."""
    kubectl.run("apply", "--namespace", namespace, "--validate=strict", "-f", sample)
    diff = kubectl.run("diff", "--namespace", namespace, "-f", sample)
    assert diff == ""

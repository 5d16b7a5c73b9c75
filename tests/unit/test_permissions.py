"""The table of permissions covers what the operator's own tables say it writes."""

from __future__ import annotations

import pytest

from kvpool_operator.api.rbac import GRANTS
from kvpool_operator.cluster.resources import GROUP_CHILDREN, POOL_CHILDREN, RESOURCES


@pytest.mark.parametrize("kind", sorted({*POOL_CHILDREN, *GROUP_CHILDREN}))
def test_every_child_can_be_read_written_and_deleted(kind: str) -> None:
    resource = RESOURCES[kind]
    group = resource.api_version.rpartition("/")[0]
    verbs = {
        verb for grant in GRANTS if grant.group == group and resource.plural in grant.resources for verb in grant.verbs
    }
    assert {"get", "list", "watch", "create", "patch", "delete"} <= verbs

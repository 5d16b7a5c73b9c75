"""The table of what the operator may do."""

from __future__ import annotations

from kvpool_operator.api.crd import KINDS
from kvpool_operator.api.rbac import ADMIN, EDIT, GRANTS, VIEW, Scope, rules


def test_no_grant_is_a_wildcard_and_none_touches_secrets() -> None:
    for grant in (*GRANTS, *VIEW, *EDIT, *ADMIN):
        assert "*" not in (grant.group, *grant.resources, *grant.verbs)
        assert "secrets" not in grant.resources


def test_no_resource_is_granted_twice_in_one_scope() -> None:
    seen = [(grant.scope, grant.group, resource) for grant in GRANTS for resource in grant.resources]
    assert len(set(seen)) == len(seen)


def test_the_operator_writes_no_spec_of_a_users_object() -> None:
    granted = {resource: set(grant.verbs) for grant in GRANTS for resource in grant.resources}
    assert granted["kvpools"] == granted["inferencegroups"] == {"get", "list", "watch"}


def test_every_kind_can_be_read_and_its_status_written() -> None:
    granted = {resource: set(grant.verbs) for grant in GRANTS for resource in grant.resources}
    for kind in KINDS:
        assert {"get", "list", "watch"} <= granted[kind.plural]
        assert "patch" in granted[f"{kind.plural}/status"]


def test_what_routers_are_granted_the_operator_holds_itself() -> None:
    held = [rule for rule in rules(Scope.WATCHED) if rule["resources"] == ["endpointslices"]]
    assert held == [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]}
    ]


def test_editors_get_no_pools() -> None:
    assert not [grant for grant in EDIT if any(resource.startswith("kvpools") for resource in grant.resources)]

"""Names and labels of everything kvpool creates: deterministic, short enough, and the only place they are spelled."""

from __future__ import annotations

DOMAIN = "kvpool.dev"
POOL_LABEL = f"{DOMAIN}/pool"
GROUP_LABEL = f"{DOMAIN}/group"
ROLE_LABEL = f"{DOMAIN}/role"
ROLE_TYPE_LABEL = f"{DOMAIN}/role-type"
PAIRING_LABEL = f"{DOMAIN}/pairing"
SLOT_LABEL = f"{DOMAIN}/slot"
COMPONENT_LABEL = "app.kubernetes.io/component"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "kvpool"
MANAGED_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGED_BY}"

DESIRED_HASH = f"{DOMAIN}/desired-hash"
UPGRADE_ANNOTATION = f"{DOMAIN}/upgrade"

FIELD_MANAGER = "kvpool-operator"


def master_name(pool: str) -> str:
    """StatefulSet and governing Service of a pool's masters."""
    return f"{pool}-master"


def master_ordinal_name(pool: str, ordinal: int) -> str:
    """The Service with a stable address for one master."""
    return f"{pool}-master-{ordinal}"


def client_config_name(pool: str) -> str:
    """The ConfigMap with the environment contract."""
    return f"{pool}-client"


def role_name(group: str, role: str) -> str:
    """The InferenceRole, the object that is scaled."""
    return f"{group}-{role}"


def engine_name(group: str, role: str, pairing: str) -> str:
    """Deployment and headless Service of one role in one pairing revision."""
    return f"{group}-{role}-{pairing}"


def router_name(group: str) -> str:
    """Deployment, Service, ServiceAccount, Role and RoleBinding of a group's router."""
    return f"{group}-router"


def revision_name(owner: str, unit: str, digest: str) -> str:
    """The ControllerRevision that pins how one roll unit is rendered."""
    return f"{owner}-{unit}-{digest}"

"""kopf's part: watches, reconnects and shutdown. Its handlers only put a key into our queue.

`on.event` sees every event and writes nothing; kopf's change-detecting handlers and indices are not used, because
they never look at children, write to users' objects, and keep ghosts after a relist.
"""

from __future__ import annotations

from typing import Any

import kopf

from kvpool_operator.api import GROUP, VERSION
from kvpool_operator.api.names import MANAGED_SELECTOR
from kvpool_operator.app.routing import Key, Router
from kvpool_operator.cluster.resources import GROUP_CHILDREN, POOL_CHILDREN, RESOURCES
from kvpool_operator.cluster.workqueue import WorkQueue

OWN_KINDS = ("KVPool", "InferenceGroup", "InferenceRole")
CHILD_KINDS = tuple(kind for kind in dict.fromkeys((*POOL_CHILDREN, *GROUP_CHILDREN)) if kind not in OWN_KINDS)


def build_registry(queue: WorkQueue[Key], router: Router) -> kopf.OperatorRegistry:
    """Handlers for all kinds that matter, each a single line of routing."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="service-account")(kopf.login_with_service_account)
    kopf.on.login(registry=registry, id="kubeconfig")(kopf.login_with_kubeconfig)

    def watch(kind: str, group: str, version: str) -> None:
        @kopf.on.event(group, version, RESOURCES[kind].plural, registry=registry, id=f"watch-{kind.lower()}")
        async def on_event(event: Any, **_: Any) -> None:
            for key in router.keys_for(kind, event["type"], event["object"]):
                queue.add(key)

    for kind in OWN_KINDS:
        watch(kind, GROUP, VERSION)
    for kind in CHILD_KINDS:
        group, _, version = RESOURCES[kind].api_version.rpartition("/")
        watch(kind, group, version)
    return registry


def build_settings() -> kopf.OperatorSettings:
    """Timeouts for streams that die silently, server-side filters for children, and no scanning of the cluster."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 310
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    for kind in CHILD_KINDS:
        group, _, _ = RESOURCES[kind].api_version.rpartition("/")
        settings.watching.label_selectors[group, RESOURCES[kind].plural] = MANAGED_SELECTOR
    return settings

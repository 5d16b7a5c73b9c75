"""An InferenceGroup: look, decide, act, say."""

from __future__ import annotations

from kvpool_operator.api.names import role_name
from kvpool_operator.build.group import BuiltGroup, build_group
from kvpool_operator.cluster.converge import Outcome, child_key, converge
from kvpool_operator.cluster.observe import observe_group
from kvpool_operator.cluster.roles import converge_roles
from kvpool_operator.cluster.status import write_status
from kvpool_operator.plan.facts import ObservedGroup, is_owned_by, uid_of
from kvpool_operator.plan.group import GroupDecision, plan_group
from kvpool_operator.plan.group_status import plan_group_status, plan_role_status
from kvpool_operator.plan.status import Acted, is_reconciling
from kvpool_operator.reconcile.context import LOOK_AT_PODS_SECONDS, Context, Report


async def reconcile_group(context: Context, namespace: str, name: str) -> Report:
    """Make one group what its spec says; raises what a queue should retry."""
    # 1. look
    observed = await observe_group(context.api, namespace, name)
    if observed is None or "deletionTimestamp" in observed.group["metadata"]:
        return Report(generation=None)  # the children go with it, by their owner references
    # 2. decide
    decision = plan_group(observed, context.defaults)
    # 3. act: a group with a broken rule, or a paused one, is left as it runs
    outcome, built = Outcome(), BuiltGroup((), (), (), ())
    paused = bool(decision.spec and decision.spec.paused)
    if decision.violation is None and not paused:
        built = build_group(observed, decision)
        outcome = await _act(context, observed, decision, built)
    # 4. say
    acted = Acted(tuple(outcome.foreign), outcome.refused, built.outdated, paused)
    status = plan_group_status(observed, decision, dict(built.revisions), acted, context.now())
    if await write_status(context.api, observed.group, status):
        outcome.written.append("status")
    await _say_roles(context, observed, decision, outcome)
    stalled = decision.violation or acted.violation()
    return Report(
        generation=observed.group["metadata"]["generation"],
        written=tuple(outcome.written),
        stalled=stalled.message if stalled else "",
        requeue_after=LOOK_AT_PODS_SECONDS if is_reconciling(status) else None,
    )


async def _act(context: Context, observed: ObservedGroup, decision: GroupDecision, built: BuiltGroup) -> Outcome:
    """InferenceRoles first, since they hold the numbers; then everything else, then deletions."""
    owner_uid = uid_of(observed.group)
    first = Outcome()
    await converge_roles(
        context.api, owner_uid, zip(decision.roles, built.roles, strict=True), observed.children, first
    )
    retained = {*decision.retained, *(child_key(role) for role in built.roles)}
    outcome = await converge(context.api, owner_uid, built.children, observed.children, retained)
    outcome.written[:0] = first.written
    outcome.foreign[:0] = first.foreign
    return outcome


async def _say_roles(context: Context, observed: ObservedGroup, decision: GroupDecision, outcome: Outcome) -> None:
    group = observed.group["metadata"]["name"]
    for role in decision.roles:
        existing = observed.children.get(("InferenceRole", role_name(group, role.spec.name)))
        if existing is None or not is_owned_by(existing, uid_of(observed.group)):
            continue
        if await write_status(context.api, existing, plan_role_status(observed, role)):
            outcome.written.append(f"status of InferenceRole {existing['metadata']['name']}")

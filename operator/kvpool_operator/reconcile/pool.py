"""A KVPool: look, decide, act, say."""

from __future__ import annotations

from kvpool_operator.build.mooncake import BuiltPool, build_pool
from kvpool_operator.cluster.converge import Outcome, converge
from kvpool_operator.cluster.observe import observe_pool
from kvpool_operator.cluster.status import write_status
from kvpool_operator.plan.facts import uid_of
from kvpool_operator.plan.pool import plan_pool
from kvpool_operator.plan.pool_status import plan_pool_status
from kvpool_operator.plan.status import Acted
from kvpool_operator.reconcile.context import Context, Report


async def reconcile_pool(context: Context, namespace: str, name: str) -> Report:
    """Make one pool what its spec says; raises what a queue should retry."""
    # 1. look
    observed = await observe_pool(context.api, namespace, name, context.watched)
    if observed is None or "deletionTimestamp" in observed.pool["metadata"]:
        return Report(generation=None)  # the children go with it, by their owner references
    # 2. decide
    decision = plan_pool(observed)
    # 3. act: a pool with a broken rule, or a paused one, is left as it runs
    outcome, built = Outcome(), BuiltPool((), ())
    paused = bool(decision.resolved and decision.resolved.spec.paused)
    if decision.resolved and not paused:
        built = build_pool(observed, decision)
        outcome = await converge(context.api, uid_of(observed.pool), built.children, observed.children)
    # 4. say
    acted = Acted(tuple(outcome.foreign), outcome.refused, built.outdated, paused)
    status = plan_pool_status(observed, decision, acted, context.now())
    if await write_status(context.api, observed.pool, status):
        outcome.written.append("status")
    stalled = decision.violation or acted.violation()
    return Report(observed.pool["metadata"]["generation"], tuple(outcome.written), stalled.message if stalled else "")

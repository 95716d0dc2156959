"""Writes a plan as the module of a test: the plan as Python literals, its run and the assertion."""

import re

from .plan import Plan

MODULE = '''"""A plan of the swarm that failed: {why}"""

from tests.swarm.plan import {names}
from tests.swarm.run import execute

PLAN = {plan!r}


def test_{name}() -> None:
    """It failed: {why}"""
    found = execute(PLAN)
    assert found.why == "", found.error
'''


def skeleton(plan: Plan, why: str) -> str:
    """It fails as `why` states until the defect is mended. `make format` breaks its lines."""
    stages = (stage for one in plan.node_pools for stage in one.stages)
    parts = (plan, *plan.node_pools, *stages, *plan.workloads, *plan.claims, *plan.events)
    used = {type(one).__name__ for one in parts}
    return MODULE.format(
        why=re.sub(r'[\\"]', "'", why),
        names=", ".join(sorted(used)),
        plan=plan,
        name="_".join(re.findall("[a-z]+", why.lower()))[:60] or "plan",
    )

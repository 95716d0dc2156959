"""A fault plan: a list of rules, each with matchers and an effect.

    - verb: PUT                # all matchers are optional
      size: Standard_NC24ads_A100_v4
      times: 2
      capacity: ZonalAllocationFailed
    - {verb: LIST, skip: 3, throttled_seconds: 30}
    - {verb: DELETE, pool: gpu1, drop: after}
    - {size: Standard_NC4as_T4_v3, zone: "1", restricted: NotAvailableForSubscription}

All mistakes are reported at once, each with its rule number, field and remedy. A rule without an effect is a mistake.

Source: docs/references/agent-pools.md#quota-and-capacity-errors, docs/references/agent-pools.md#throttling,
docs/references/simulator.md#simulated-arm.
"""

from typing import Any, Literal

import msgspec

from . import errors, faults
from .errors import Answer
from .faults import Failure, Fault

Verb = Literal[
    "*",
    "CLUSTER",
    "LIST",
    "GET",
    "PUT",
    "DELETE",
    "DELETE_MACHINES",
    "ABORT",
    "MACHINES",
    "MACHINE",
    "UPGRADE_PROFILE",
    "OPERATION",
]
HANDLER = "AgentPoolHandler"


class InvalidFaultPlan(Exception):
    """The mistakes in a fault plan, one per line."""


class Refused(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A response in AKS's flat shape, or with `gateway` in ARM's."""

    status: int
    code: str
    message: str = "rejected by the fault plan"
    gateway: bool = False


class Failed(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The failure of an accepted operation; `wrapped`: inside AKS's own error, as Compute's errors are."""

    code: str
    message: str = "failed by the fault plan"
    after_seconds: float = 45.0
    machine: bool = False
    wrapped: bool = False


class Rule(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One rule; durations are in simulated seconds, Retry-After in whole real seconds."""

    verb: Verb = "*"
    pool: str = "*"
    size: str = ""
    zone: str = ""
    priority: Literal["", "Regular", "Spot"] = ""
    skip: int = 0
    times: int = 1
    answer: Refused | None = None
    html: int | None = None
    throttled_seconds: int | None = None
    arm_throttled_seconds: int | None = None
    drop: Literal["", "before", "after"] = ""
    slow_seconds: float = 0.0
    slow: Literal["before", "after"] = "before"
    failure: Failed | None = None
    capacity: (
        Literal["AllocationFailed", "ZonalAllocationFailed", "OverconstrainedZonalAllocationRequest", "SkuNotAvailable"]
        | None
    ) = None
    quota: str | None = None
    operation_seconds: float | None = None
    restricted: Literal["", "NotAvailableForSubscription", "QuotaId"] = ""


def read(rules: object) -> list[Fault]:
    """The faults of a plan that was parsed from YAML or JSON. Raises InvalidFaultPlan."""
    if not isinstance(rules, list):
        raise InvalidFaultPlan("a fault plan is a list of rules")
    found: list[Fault] = []
    mistakes: list[str] = []
    for number, raw in enumerate(rules, start=1):
        try:
            found.append(_fault(msgspec.convert(raw, Rule)))
        except (msgspec.ValidationError, InvalidFaultPlan) as error:
            mistakes.append(f"rule {number}: {error}")
    if mistakes:
        raise InvalidFaultPlan("\n".join(mistakes))
    return found


def _fault(rule: Rule) -> Fault:
    if rule.restricted:
        return _restriction(rule)
    answers, failures = _answers(rule), _failures(rule)
    if len(answers) > 1 or len(failures) > 1:
        raise InvalidFaultPlan("set at most one answer and one failure")
    if failures and rule.verb not in ("PUT", "DELETE"):
        raise InvalidFaultPlan("only an accepted PUT or DELETE can fail later; set `verb`")
    acts = (answers, failures, rule.drop, rule.slow_seconds, rule.operation_seconds)
    if not any(acts):
        raise InvalidFaultPlan(
            "the rule has no effect; set answer, html, throttled_seconds, arm_throttled_seconds, drop, slow_seconds,"
            " failure, capacity, quota, operation_seconds or restricted"
        )
    if rule.times < 1 or rule.skip < 0:
        raise InvalidFaultPlan("`times` must be at least 1, `skip` at least 0")
    return Fault(
        verb=rule.verb,
        pool=rule.pool,
        size=rule.size,
        zone=rule.zone,
        priority=rule.priority,
        skip=rule.skip,
        times=rule.times,
        answer=next(iter(answers), None),
        drop=rule.drop,
        slow_seconds=rule.slow_seconds,
        slow=rule.slow,
        failure=next(iter(failures), None),
        operation_seconds=rule.operation_seconds,
    )


def _restriction(rule: Rule) -> Fault:
    alone = Rule(size=rule.size, zone=rule.zone, restricted=rule.restricted)
    if not rule.size or rule != alone:
        raise InvalidFaultPlan("`restricted` needs `size`, and allows only `zone` besides it")
    return faults.restricted(rule.size, zone=rule.zone, reason=rule.restricted)


def _answers(rule: Rule) -> list[Answer]:
    found: list[Answer] = []
    if (answer := rule.answer) is not None:
        error = errors.gateway if answer.gateway else errors.rp
        found.append(error(answer.status, answer.code, answer.message))
    if rule.html is not None:
        found.append(errors.html(rule.html))
    if rule.throttled_seconds is not None:
        found.append(errors.throttled(HANDLER, rule.throttled_seconds))
    if rule.arm_throttled_seconds is not None:
        kind = {"PUT": "writes", "DELETE": "deletes"}.get(rule.verb, "reads")
        found.append(errors.arm_throttled(kind, rule.arm_throttled_seconds))
    return found


def _failures(rule: Rule) -> list[Failure]:
    found: list[Failure] = []
    if (failed := rule.failure) is not None:
        error: Any = faults.error(failed.code, failed.message)
        error = faults.wrapped(error) if failed.wrapped else error
        found.append(Failure(error=error, after_seconds=failed.after_seconds, machine=failed.machine))
    if rule.capacity is not None:
        found.append(Failure(error=faults.wrapped(faults.no_capacity(rule.capacity))))
    if rule.quota is not None:
        found.append(Failure(error=faults.wrapped(faults.quota_exceeded(rule.quota))))
    return found

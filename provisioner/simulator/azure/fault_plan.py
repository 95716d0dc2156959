"""A fault plan in a file: YAML or JSON, a list of rules, each a match and what then happens.

    - verb: PUT                # what is hit; all matchers are optional
      size: Standard_NC24ads_A100_v4
      times: 2
      capacity: ZonalAllocationFailed
    - {verb: LIST, skip: 3, throttled_seconds: 30}
    - {verb: DELETE, pool: gpu1, drop: after}

Every mistake is found at once, each with the number of its rule, the field, and what would be right; a rule
that does nothing is a mistake too.

Source: docs/references/agent-pools.md#quota-and-capacity-errors, docs/references/agent-pools.md#throttling,
docs/references/simulator.md#simulated-arm.
"""

from typing import Any, Literal

import msgspec
import yaml

from . import errors, faults
from .errors import Answer
from .faults import Failure, Fault

Verb = Literal[
    "*", "CLUSTER", "LIST", "GET", "PUT", "DELETE", "DELETE_MACHINES", "ABORT", "MACHINES", "MACHINE", "OPERATION"
]
HANDLER = "AgentPoolHandler"


class InvalidFaultPlan(Exception):
    """What is wrong with a fault plan, a line for each mistake."""


class Refused(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An answer in AKS's flat shape, or with `gateway` in ARM's."""

    status: int
    code: str
    message: str = "refused by the fault plan"
    gateway: bool = False


class Failed(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How an accepted operation fails; `wrapped`: inside AKS's own code, as Compute's errors come."""

    code: str
    message: str = "failed by the fault plan"
    after_seconds: float = 45.0
    machine: bool = False
    wrapped: bool = False


class Rule(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One rule as it is written; durations are in simulated seconds, Retry-After in whole real ones."""

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


def read(text: str) -> list[Fault]:
    """The faults of a plan. Raises InvalidFaultPlan."""
    try:
        rules = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidFaultPlan(f"neither YAML nor JSON: {error}") from None
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
    answers, failures = _answers(rule), _failures(rule)
    if len(answers) > 1 or len(failures) > 1:
        raise InvalidFaultPlan("one answer and one failure at most")
    if failures and rule.verb not in ("PUT", "DELETE"):
        raise InvalidFaultPlan("only an accepted PUT or DELETE can fail later; say which by `verb`")
    acts = (answers, failures, rule.drop, rule.slow_seconds, rule.operation_seconds)
    if not any(acts):
        raise InvalidFaultPlan(
            "it does nothing; give it answer, html, throttled_seconds, arm_throttled_seconds, drop, slow_seconds,"
            " failure, capacity, quota or operation_seconds"
        )
    if rule.times < 1 or rule.skip < 0:
        raise InvalidFaultPlan("`times` is at least 1, `skip` at least 0")
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


def _answers(rule: Rule) -> list[Answer]:
    found: list[Answer] = []
    if (said := rule.answer) is not None:
        say = errors.gateway if said.gateway else errors.rp
        found.append(say(said.status, said.code, said.message))
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
    if (said := rule.failure) is not None:
        error: Any = faults.error(said.code, said.message)
        error = faults.wrapped(error) if said.wrapped else error
        found.append(Failure(error=error, after_seconds=said.after_seconds, machine=said.machine))
    if rule.capacity is not None:
        found.append(Failure(error=faults.wrapped(faults.no_capacity(rule.capacity))))
    if rule.quota is not None:
        found.append(Failure(error=faults.wrapped(faults.quota_exceeded(rule.quota))))
    return found

"""Readiness rules as a plan sees them: which apply to a claim's Node, and what the caches show for each.

Source: docs/references/kubernetes.md#readiness-rules.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.readiness import ReadinessRule


class AppliedRule(msgspec.Struct, frozen=True, kw_only=True):
    """`source` names the rule in messages.

    `objects`: of a rule about a pod or an object, what the cache holds, as JSON; `problem`: why it cannot be read.
    """

    rule: ReadinessRule
    source: str
    objects: tuple[Mapping[str, Any], ...] = ()
    problem: str = ""


def recorded_taints(claim: NodeClaim) -> tuple[Taint, ...]:
    """The taints of rules that the claim's Node bears from its registration, as they are written on the claim."""
    text = claim.metadata.annotations.get(labels.READINESS_TAINTS, "")
    return tuple(_taint(part) for part in text.split(",") if part.rpartition(":")[0])


def record_of(taints: Iterable[Taint]) -> str:
    """The text that `recorded_taints` reads."""
    return ",".join(str(taint) for taint in taints)


def _taint(text: str) -> Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return Taint(key=key, value=value, effect=effect)

"""Pods, Nodes and claims of the tests of this folder."""

import math
from datetime import timedelta
from typing import Any

import msgspec

from controllers.model.facts import Facts, Unhealthy
from provisioner.api import labels
from tests.unit.builders import COLUMNS, NODE, NOW, PROVIDER_ID, UP, claim, facts, instance, node

MINUTE = 60.0


def going(*, period: str | None = None, by: str | None = None, requested_ago: float = 30.0):
    """A deleting claim with a grace period, or with the annotation."""
    made = claim(up=UP, node_name=NODE, deleting=True, annotations={labels.TERMINATION_TIMESTAMP: by} if by else {})
    meta = msgspec.structs.replace(made.metadata, deletion_timestamp=NOW - timedelta(seconds=requested_ago))
    spec = msgspec.structs.replace(made.spec, termination_grace_period=period)
    return msgspec.structs.replace(made, metadata=meta, spec=spec)


def in_seconds(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def sick_claim(**fields: Any):
    """A claim that was Initialized, with complete conditions."""
    made = claim(
        up=("Launched", "Registered"),
        down={"Initialized": "NodeNotReady"},
        node_name=NODE,
        more_labels=COLUMNS,
        **fields,
    )
    status = msgspec.structs.replace(made.status, provider_id=PROVIDER_ID)
    return msgspec.structs.replace(made, status=status)


def unhealthy(
    minutes: float = 10.0, *, watched: float | None = None, remedies_age: float = 1.0, **fields: Any
) -> Unhealthy:
    """Not Ready for so long, without a remedy of AKS."""
    seconds = minutes * MINUTE
    read_at = None if remedies_age == math.inf else -remedies_age
    made = Unhealthy(
        since=-seconds, observed_since=-(seconds if watched is None else watched), remedies_read_at=read_at
    )
    return msgspec.structs.replace(made, **fields)


def about(minutes: float = 10.0, **fields: Any) -> Facts:
    """A Node that has not been Ready for so many minutes, with fresh reads; `fields` of Facts."""
    unready = node(ready="False")
    made = facts(
        claims=(sick_claim(),),
        nodes=(unready,),
        instance=instance(),
        unhealthy=unhealthy(minutes),
        pool_read_age=1.0,
        nodes_read_age=1.0,
        nodes_read=(unready,),
        claim_read_age=1.0,
        claim_read=sick_claim(),
    )
    return msgspec.structs.replace(made, **fields)

"""Labels of the claim for instance type, capacity type and zone, which kubectl shows as columns.

The only instance type that a claim allows is written with the finalizer, as Karpenter labels a claim with requirements
of one value; all others are written at once after the launch. Values that the user has set are kept. Labels of a
machine that failed go with it, so that they reach neither the next machine nor its Node.

Source: docs/references/karpenter.md#nodeclaim-api, docs/references/kaito.md#what-kaito-reads.
"""

from collections.abc import Mapping

from controllers.model.facts import Facts
from controllers.model.steps import PatchClaim
from provisioner.api import labels
from provisioner.api.meta import EMPTY
from provisioner.api.nodeclaim import NodeClaim

from .launch import launched_since
from .launch_failure import failed_launch_remains

# The Node appears within seconds before or after the pool's creation has finished.
NODE_USUAL_SECONDS = 60.0


def known_before_launch(f: Facts) -> Mapping[str, str]:
    """The instance type, if the claim allows only one."""
    sizes = {offer.offering.size for offer in f.offers}
    if len(sizes) != 1 or f.claim is None or labels.INSTANCE_TYPE in f.claim.metadata.labels:
        return EMPTY
    return {labels.INSTANCE_TYPE: sizes.pop()}


def step(f: Facts) -> PatchClaim | None:
    """Write the labels once the Node has its zone, which the node manager sets; without the zone if no Node appears.

    The labels of a machine that failed are removed. An annotation lists those that the controller wrote,
    with their values: a label that a user changed is the user's.
    """
    claim = f.claim
    if claim is None or "PatchClaim" in f.refused:
        return None
    wanted = {} if failed_launch_remains(f, claim) else _of_machine(f, claim)
    if wanted is None:
        return None
    present, written = claim.metadata.labels, _written(claim)
    changes: dict[str, str | None] = {
        key: value
        for key, value in wanted.items()
        if value and present.get(key) != value and (key not in present or key in written)
    }
    if not wanted:
        changes |= dict.fromkeys(written)
    after = {**written, **changes}
    listed = ",".join(f"{key}={value}" for key, value in sorted(after.items()) if value is not None)
    if not changes and listed == claim.metadata.annotations.get(labels.INSTANCE_LABELS, ""):
        return None
    return PatchClaim(claim=claim, labels=changes, annotations={labels.INSTANCE_LABELS: listed or None})


def _of_machine(f: Facts, claim: NodeClaim) -> dict[str, str] | None:
    """The labels of the claim's machine; None if they are not known yet."""
    node = f.node
    if (node is None and not _late(f, claim)) or (node is not None and node.cloud_uninitialized):
        return None
    found: dict[str, str] = {}
    if node is not None:
        found = {key: node.metadata.labels.get(key, "") for key in (labels.INSTANCE_TYPE, labels.ZONE)}
    if f.instance is not None:
        found[labels.INSTANCE_TYPE] = found.get(labels.INSTANCE_TYPE) or f.instance.size
        found[labels.CAPACITY_TYPE] = f.instance.offering.capacity_type
    return found or None


def _written(claim: NodeClaim) -> dict[str, str]:
    """The labels that the controller wrote for a machine of this claim, without those that a user changed since."""
    listed = (part.partition("=") for part in claim.metadata.annotations.get(labels.INSTANCE_LABELS, "").split(","))
    present = claim.metadata.labels
    return {key: value for key, _, value in listed if key in labels.OF_INSTANCE and present.get(key) == value}


def _late(f: Facts, claim: NodeClaim) -> bool:
    """Whether the pool has been running for longer than a Node usually takes to appear."""
    since = launched_since(f, claim)
    return since is not None and (f.now - since).total_seconds() >= NODE_USUAL_SECONDS

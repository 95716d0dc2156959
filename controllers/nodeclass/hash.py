"""The hash of an AgentPoolNodeClass, by which drift of the NodeClaims of NodePools is found.

A NodeClaim gets the hash of the node class when it is created; one without a hash does not drift by it. When the
version of the hash changes, NodeClaims of another version get the hash of now, except those that are Drifted already.

Source: docs/references/karpenter.md#nodepool, https://karpenter.sh/docs/concepts/disruption/#drift.
"""

import msgspec

from provisioner.api import labels
from provisioner.api.canonical import digest
from provisioner.api.nodeclass import AgentPoolNodeClass, GpuSettings

HASH_VERSION = "v2"


def spec_hash(node_class: AgentPoolNodeClass) -> str:
    """16 hexadecimal digits, equal for specs that differ only in the order of tags or in written defaults.

    Readiness rules are not part of it: they concern a Node only until it is initialized. Neither is how the device
    plugin names and multiplies devices: it is configured for machines that exist as well; nor how many machines there
    are.
    """
    spec = node_class.spec
    defaults = GpuSettings()
    gpu = msgspec.structs.replace(
        spec.gpu,
        mig_strategy=defaults.mig_strategy,
        shared_replicas=defaults.shared_replicas,
        shared_resource=defaults.shared_resource,
    )
    return digest(msgspec.structs.replace(spec, readiness=(), replica_schedules=(), gpu=gpu))


def hash_annotations(node_class: AgentPoolNodeClass | None) -> dict[str, str]:
    """The annotations of a NodeClaim of a NodePool; none if the node class is not known or cannot be decoded whole."""
    if node_class is None or node_class.metadata.unreadable:
        return {}
    return {labels.NODECLASS_HASH: spec_hash(node_class), labels.NODECLASS_HASH_VERSION: HASH_VERSION}

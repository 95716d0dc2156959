"""The hash of a NodePool's template, by which drift of its NodeClaims is found.

The hash covers what Karpenter's covers: the template without its requirements. Its value differs from Karpenter's, and
so does its version, so that neither controller takes the other's hash for drift. When a NodePool has another version,
its NodeClaims get the version of this program and its hash, except those that are Drifted already.

Source: docs/references/karpenter.md#nodepool,
https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/nodepool/hash/controller.go.
"""

import msgspec

from provisioner.api import labels
from provisioner.api.canonical import digest
from provisioner.api.nodepool import NodePool

HASH_VERSION = "gpu-provisioner-v2"


def template_hash(pool: NodePool) -> str:
    """16 hexadecimal digits, equal for templates that differ in requirements, written defaults or order of taints."""
    template = pool.spec.template
    spec = msgspec.structs.replace(
        template.spec,
        requirements=(),
        taints=tuple(sorted(template.spec.taints, key=str)),
        startup_taints=tuple(sorted(template.spec.startup_taints, key=str)),
    )
    return digest(msgspec.structs.replace(template, spec=spec))


def hash_annotations(pool: NodePool) -> dict[str, str]:
    """The annotations of the NodePool, which a NodeClaim gets when it is created."""
    return {labels.NODEPOOL_HASH: template_hash(pool), labels.NODEPOOL_HASH_VERSION: HASH_VERSION}

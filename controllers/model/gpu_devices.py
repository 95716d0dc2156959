"""The extended resource under which the GPUs of a machine are offered, and how many of its devices are expected.

A node class states how its device plugin names and multiplies them; without that, they are the whole GPUs of the size.

Source: docs/references/kubernetes.md#gpu-resource-names, docs/references/agent-pools.md#mig-slices.
"""

import msgspec

from cloudprovider.interface import Gpus
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import GpuSettings
from provisioner.vendors import division_of

from .policy import Policy

# How many slices of each profile a GPU has.
SLICES = {"MIG1g": 7, "MIG2g": 3, "MIG3g": 2, "MIG4g": 1, "MIG7g": 1}


class Devices(msgspec.Struct, frozen=True):
    """`count` devices of an extended resource; `resource` is "" without any."""

    resource: str = ""
    count: int = 0


def expected_devices(gpus: Gpus, settings: GpuSettings | None) -> Devices:
    """The devices of a machine of this size. `settings`: of its node class; None if it has none of this program."""
    division = division_of(gpus.resource)
    if settings is None or division is None:
        return Devices(gpus.resource, gpus.count)
    resource, count = gpus.resource, gpus.count * SLICES.get(settings.mig_profile, 1)
    if settings.mig_strategy == "Mixed" and settings.mig_profile in gpus.slices:
        resource = division.slice_prefix + gpus.slices[settings.mig_profile]
    if settings.shared_replicas > 1:
        count *= settings.shared_replicas
        if settings.shared_resource == gpus.resource + division.shared_suffix:
            resource += division.shared_suffix
    return Devices(resource, count)


def requires_gpus(policy: Policy, claim: NodeClaim) -> bool:
    """Whether the machine is initialized only with its GPUs; otherwise their number is only reported."""
    return claim.metadata.annotations.get(labels.GPU_READINESS, policy.gpu_readiness) != "report"


def declares_devices(settings: GpuSettings | None) -> bool:
    """Whether the node class states another arrangement than whole GPUs."""
    return settings is not None and (bool(settings.mig_profile) or settings.shared_replicas > 1)

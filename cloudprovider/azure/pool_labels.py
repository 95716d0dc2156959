"""The node labels of an agent pool, from the labels of its NodeClaim.

A label that AKS refuses is an error of the claim. Labels that Azure sets itself and labels that grant a Node privileges
are left out. The ownership label overrides a label of the claim with the same key.

Source: docs/references/agent-pools.md#labels-and-taints, docs/references/kaito.md#its-agent-pools,
docs/references/rules.md#ownership-marks, docs/references/rules.md#limits-on-cost-and-privilege.
"""

import re
from collections.abc import Iterator

from cloudprovider.interface import Offering
from provisioner.api import labels, reasons
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.time import label_time

from .instance_types import is_gpu_size

# Facts of the machine, which no label of a claim changes. Azure sets most of them on every Node, and AKS refuses some
# from users; the capacity type is that of the offering.
SET_BY_CLOUD = frozenset(
    {
        *labels.OF_INSTANCE,
        labels.REGION,
        labels.ARCH,
        labels.OS,
        labels.HOSTNAME,
        labels.AKS_SPOT,
        *labels.BETA_KEYS,
    }
)
ACCEPTED_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
REFUSED_DOMAINS = ("kubernetes.azure.com", "kubernetes.io")
RESERVED_NAMES = frozenset({"agentpool", "storageprofile", "storagetier", "accelerator"})

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAME_REMEDY = "use letters, digits, '-', '_' and '.', at most 63 characters"
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def pool_labels(claim: NodeClaim, offering: Offering) -> dict[str, str]:
    """The node labels of a pool of this offering for a valid claim."""
    wanted = {labels.NODEPOOL: labels.DEFAULT_NODEPOOL}
    wanted |= {key: value for key, value in claim.metadata.labels.items() if not is_excluded(key)}
    wanted[labels.KAITO_MACHINE_TYPE] = "gpu" if is_gpu_size(offering.size) else "cpu"
    wanted[labels.CAPACITY_TYPE] = offering.capacity_type
    wanted[labels.KAITO_CREATION_TIMESTAMP] = label_time(claim.metadata.creation_timestamp)
    wanted[labels.CLAIM_UID] = claim.uid
    return wanted


def validate(claim: NodeClaim) -> Iterator[FieldError]:
    """An error for each label that AKS refuses."""
    for key, value in claim.metadata.labels.items():
        if not is_excluded(key):
            yield from _validate_label(key, value)


def is_excluded(key: str) -> bool:
    """Whether a label of a claim is left out of the pool without an error."""
    return key in SET_BY_CLOUD or _in_domains(key, labels.PRIVILEGED_DOMAINS)


def is_reserved_by_aks(key: str) -> bool:
    """Whether AKS refuses labels and taints of users with this key."""
    return _in_domains(key, ("kubernetes.azure.com",))


def _in_domains(key: str, domains: tuple[str, ...]) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == d or domain.endswith("." + d) for d in domains)


def _validate_label(key: str, value: str) -> Iterator[FieldError]:
    domain, _, name = key.rpartition("/")
    if key in RESERVED_NAMES or (_in_domains(key, REFUSED_DOMAINS) and not _in_domains(key, ACCEPTED_DOMAINS)):
        yield _refused(key, value, "AKS reserves this key", "remove the label or use another prefix")
    elif _NAME.fullmatch(name) is None or (domain and (len(domain) > 253 or _DOMAIN.fullmatch(domain) is None)):
        yield _refused(key, value, "invalid label key", _NAME_REMEDY)
    if value and _NAME.fullmatch(value) is None:
        yield _refused(key, value, "invalid label value", _NAME_REMEDY)


def _refused(key: str, value: str, cause: str, remedy: str) -> FieldError:
    message = f"{value[:40]!r}: {cause}"
    return FieldError(f"metadata.labels[{key}]", reasons.LABEL_REFUSED, message, value, remedy)

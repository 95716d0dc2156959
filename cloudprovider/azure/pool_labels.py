"""Which of a claim's labels go onto its agent pool, and what else stands there.

A label that AKS would refuse is named, with its remedy, before anything is sent; labels that the cloud sets
itself, and labels that would give a Node privileges, are left out. Our mark is forced last, over anything the user
wrote.

Source: docs/references/agent-pools.md#labels-and-taints, docs/references/kaito.md#its-agent-pools,
docs/references/rules.md#ownership-marks, docs/references/rules.md#limits-on-cost-and-privilege.
"""

import re
from collections.abc import Iterator

from provisioner.api import labels, reasons
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclaim import NodeClaim

from .instance_types import is_gpu_size

# The cloud writes these on every Node; AKS refuses some of them from users.
SET_BY_CLOUD = frozenset(
    {
        labels.INSTANCE_TYPE,
        labels.ZONE,
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


def pool_labels(claim: NodeClaim, size: str) -> dict[str, str]:
    """The node labels of a pool for a valid claim."""
    wanted = {labels.NODEPOOL: labels.DEFAULT_NODEPOOL}
    wanted |= {key: value for key, value in claim.metadata.labels.items() if not left_out(key)}
    wanted[labels.KAITO_MACHINE_TYPE] = "gpu" if is_gpu_size(size) else "cpu"
    wanted[labels.KAITO_CREATION_TIMESTAMP] = claim.metadata.creation_timestamp.strftime(labels.CREATION_LAYOUT)
    wanted[labels.CLAIM_UID] = claim.uid
    return wanted


def validate(claim: NodeClaim) -> Iterator[FieldError]:
    """An error for each label that AKS refuses."""
    for key, value in claim.metadata.labels.items():
        if not left_out(key):
            yield from _validate_label(key, value)


def left_out(key: str) -> bool:
    """Whether a claim's label never goes onto a pool, and nobody need be told."""
    return key in SET_BY_CLOUD or _under(key, labels.PRIVILEGED_DOMAINS)


def kept_by_aks(key: str) -> bool:
    """Whether AKS refuses this key from users, on whatever it stands."""
    return _under(key, ("kubernetes.azure.com",))


def _under(key: str, domains: tuple[str, ...]) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == d or domain.endswith("." + d) for d in domains)


def _validate_label(key: str, value: str) -> Iterator[FieldError]:
    domain, _, name = key.rpartition("/")
    if key in RESERVED_NAMES or (_under(key, REFUSED_DOMAINS) and not _under(key, ACCEPTED_DOMAINS)):
        yield _refused(key, value, "AKS reserves this key", "remove the label or use another prefix")
    elif _NAME.fullmatch(name) is None or (domain and (len(domain) > 253 or _DOMAIN.fullmatch(domain) is None)):
        yield _refused(key, value, "invalid label key", _NAME_REMEDY)
    if value and _NAME.fullmatch(value) is None:
        yield _refused(key, value, "invalid label value", _NAME_REMEDY)


def _refused(key: str, value: str, cause: str, remedy: str) -> FieldError:
    message = f"{value[:40]!r}: {cause}"
    return FieldError(f"metadata.labels[{key}]", reasons.LABEL_REFUSED, message, value, remedy)

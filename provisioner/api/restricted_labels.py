"""Which labels and annotations of a NodeClaim reach its Node.

The agent pool and the registration of the Node use the same check. Nothing that the cloud, the kubelet, Kubernetes or
this controller writes on a Node comes from a claim.

Source: docs/references/agent-pools.md#labels-and-taints, docs/references/rules.md#limits-on-cost-and-privilege,
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set.
"""

import re
from functools import lru_cache

from . import labels

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
# The progress of a Node, which this controller labels.
SET_BY_CONTROLLER = frozenset({labels.REGISTERED, labels.INITIALIZED})
ACCEPTED_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
REFUSED_DOMAINS = ("kubernetes.azure.com", "kubernetes.io")
RESERVED_NAMES = frozenset({"agentpool", "storageprofile", "storagetier", "accelerator"})

# The label of a node class is set by the controller, with the value that the NodePool has.
_NODECLASS = f"{labels.OWN_DOMAIN}/{labels.NODECLASS_KIND.lower()}"
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAME_REMEDY = "use letters, digits, '-', '_' and '.', at most 63 characters"
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_excluded(key: str) -> bool:
    """Whether a label or annotation of a claim is left out without an error."""
    return key in SET_BY_CLOUD | SET_BY_CONTROLLER or _in_domains(key, labels.PRIVILEGED_DOMAINS)


def grants_privileges(key: str) -> bool:
    """Whether a label with this key would grant a Node privileges or mark it as another's, so that none is copied."""
    return _in_domains(key, labels.PRIVILEGED_DOMAINS) and key != _NODECLASS


def is_reserved_by_aks(key: str) -> bool:
    """Whether AKS refuses labels and taints of users with this key."""
    return _in_domains(key, ("kubernetes.azure.com",))


@lru_cache(maxsize=1024)  # each NodePool is compared with each instance type
def refused_key(key: str) -> tuple[str, str] | None:
    """Why AKS refuses a label with this key, and the remedy; None if it does not."""
    domain, _, name = key.rpartition("/")
    if key in RESERVED_NAMES or (_in_domains(key, REFUSED_DOMAINS) and not _in_domains(key, ACCEPTED_DOMAINS)):
        return "AKS reserves this key", "remove the label or use another prefix"
    if _NAME.fullmatch(name) is None or (domain and (len(domain) > 253 or _DOMAIN.fullmatch(domain) is None)):
        return "invalid label key", _NAME_REMEDY
    return None


def refused_value(value: str) -> tuple[str, str] | None:
    """Why AKS refuses a label with this value, and the remedy; None if it does not."""
    return ("invalid label value", _NAME_REMEDY) if value and _NAME.fullmatch(value) is None else None


def is_copied(key: str) -> bool:
    """Whether a label or annotation of a claim with this key is copied to its Node, unless the Node has the key."""
    return not is_excluded(key) and refused_key(key) is None


def _in_domains(key: str, domains: tuple[str, ...]) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == d or domain.endswith("." + d) for d in domains)

"""Whether a machine of a NodePool surely takes a pod, as I21 has to know it.

What is not certain is no: the pod has constraints that need a scheduler, or requests nearly all of a machine.
"""

from typing import Any

from provisioner.api import labels

from .azure import sizes
from .scheduling.requests import Amounts, pod_requests
from .snapshot import labels_of

Json = dict[str, Any]

# The part of a machine that pods surely get: the kubelet reserves at most a quarter of the memory and 0.2 vCPUs, and
# the rest is for DaemonSets.
CPU_PART, MEMORY_PART = 0.75, 0.5
# What a pod may state for I21 to know which NodePool takes it.
_CONSTRAINTS = (
    "affinity",
    "topologySpreadConstraints",
    "resourceClaims",
    "schedulingGates",
    "volumes",
    "initContainers",
    "priority",
    "overhead",
)
_OWN_SCHEDULER = "default-scheduler"


def takes(node_pool: Json, pod: Json) -> bool:
    """Whether the pod names the NodePool, and surely fits an empty machine of each size that it states."""
    spec = pod["spec"]
    if any(spec.get(one) for one in _CONSTRAINTS) or "finalizers" in pod["metadata"]:
        return False
    if spec.get("schedulerName", _OWN_SCHEDULER) != _OWN_SCHEDULER:
        return False
    template = node_pool["spec"]["template"]
    known = {
        labels.NODEPOOL: node_pool["metadata"]["name"],
        **(labels_of({"metadata": template.get("metadata") or {}})),
    }
    selected = spec.get("nodeSelector") or {}
    if labels.NODEPOOL not in selected or any(known.get(key) != value for key, value in selected.items()):
        return False
    tolerations = spec.get("tolerations") or ()
    taints = [*(template["spec"].get("taints") or ()), *(template["spec"].get("startupTaints") or ())]
    if any(not any(_tolerates(one, taint) for one in tolerations) for taint in taints):
        return False
    requirements = template["spec"].get("requirements") or ()
    named = [one for one in requirements if one["key"] == labels.INSTANCE_TYPE and one["operator"] == "In"]
    found = [sizes.find(value) for one in named for value in one["values"]]
    wanted = pod_requests(spec)
    comparable = "nvidia.com/gpu" in wanted and {"cpu", "memory", "nvidia.com/gpu"} >= set(wanted)
    return bool(found) and comparable and all(_fits(wanted, one) for one in found)


def _fits(wanted: Amounts, size: sizes.Size | None) -> bool:
    """Whether a machine of the size surely has room for these requests."""
    return (
        size is not None
        and wanted.get("nvidia.com/gpu", 0) <= size.gpus
        and wanted.get("cpu", 0) <= CPU_PART * size.vcpus
        and wanted.get("memory", 0) <= MEMORY_PART * size.memory_gib * 2**30
    )


def _tolerates(toleration: Json, taint: Json) -> bool:
    effect = toleration.get("effect") in (None, "", taint["effect"])
    same = toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
    return effect and toleration.get("key") == taint["key"] and same

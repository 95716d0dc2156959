"""What matters of a pod when its machine may be disrupted: who creates it again, what protects it, and what it costs.

Source: https://karpenter.sh/docs/concepts/disruption/#pod-level-controls,
https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/utils/disruption/disruption.go (EvictionCost),
docs/references/karpenter.md#pods.
"""

from datetime import datetime

import msgspec

from controllers.node.termination.pod_predicates import is_protecting, tolerates_disruption
from provisioner.api import labels
from provisioner.api.gpu_pods import requests_gpus
from provisioner.api.pod import Pod

# Karpenter's: this much of pod-deletion-cost, or of priority, costs as much as one pod.
DELETION_COSTS = 2.0**27
PRIORITIES = 2.0**25
MOST_COST = 10.0
NO_OWNER = ("", "")
# Texts of users are cut to what any valid one has: characters of a text, and of a number.
TEXT, DIGITS = 253, 30


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """Equal pods share one. `do_not_disrupt`: the annotation. `owner`: apiVersion and kind of the controller, if any.

    `cost`: between -10 and 10, 1 for an ordinary pod. `gpus`: it requests GPUs, or devices by a ResourceClaim.
    `group`: its end restarts all pods of a LeaderWorkerSet's group, whose StatefulSets create them.
    `static`: a file on the Node defines it. `tolerates`: it tolerates the disrupted taint, so that a drain leaves it.
    """

    do_not_disrupt: str = ""
    owner: tuple[str, str] = NO_OWNER
    cost: float = 1.0
    gpus: bool = False
    group: bool = False
    static: bool = False
    tolerates: bool = False

    def protects(self, started: datetime | None, now: datetime) -> bool:
        """Whether do-not-disrupt applies to a pod that started then."""
        return is_protecting(self.do_not_disrupt, started, now)


NO_EVICTION = Eviction()


def eviction(pod: Pod) -> Eviction:
    """What an eviction of this pod depends on."""
    meta = pod.metadata
    owner = next(
        ((one.api_version[:TEXT], one.kind[:TEXT]) for one in meta.owner_references if one.controller), NO_OWNER
    )
    return Eviction(
        do_not_disrupt=meta.annotations.get(labels.DO_NOT_DISRUPT, "")[:TEXT],
        owner=owner,
        cost=_cost(meta.annotations.get(labels.POD_DELETION_COST, ""), pod.spec.priority or 0),
        gpus=requests_gpus(pod.spec),
        group=labels.LEADER_WORKER_SET in meta.labels,
        static=meta.mirrored_by is not None,
        tolerates=any(tolerates_disruption(one) for one in pod.spec.tolerations),
    )


def _cost(deletion_cost: str, priority: int) -> float:
    try:
        own = int(deletion_cost[:DIGITS] or "0")
    except ValueError:
        own = 0  # as the ReplicaSet controller treats it
    return max(-MOST_COST, min(MOST_COST, 1.0 + own / DELETION_COSTS + priority / PRIORITIES))

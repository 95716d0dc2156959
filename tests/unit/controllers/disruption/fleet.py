"""A cluster of machines and their pods as consolidation reads it, for tests. Prices and sizes are those of eastus."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from controllers.disruption.machine import Machine, budget_left, count_of
from controllers.disruption.view import View
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.observed import Observed
from controllers.provisioning.pods import CachedPod, PodDigest
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_owned_by
from provisioner.api.pod import Pod
from tests.unit.controllers.provisioning.observed import PENDING, TYPES

NOW = datetime(2026, 3, 1, 13, tzinfo=UTC)
MOMENT = "2026-03-01T12:00:00Z"
GPU = "nvidia.com/gpu"
T4, T4_8, T4_16, T4_64 = (f"Standard_NC{cpus}as_T4_v3" for cpus in (4, 8, 16, 64))
A100, A100_4, A100_8 = "Standard_NC24ads_A100_v4", "Standard_NC96ads_A100_v4", "Standard_ND96amsr_A100_v4"
D2, D4, D8, D16 = (f"Standard_D{cpus}s_v5" for cpus in (2, 4, 8, 16))
UP = ("Launched", "Registered", "Initialized", "Ready", "Consolidatable")
NODE_CLASS = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
TYPE_BY_NAME = {kind.name: kind for kind in TYPES.types}
DIGEST = PodDigest()
Json = dict[str, Any]


def pool(name: str = "gpu", policy: str | None = "WhenEmptyOrUnderutilized", **spec: Any) -> NodePool:
    """A NodePool of all sizes on demand, without a limit on disruptions."""
    disruption: Json = {"consolidateAfter": "5m", "budgets": [{"nodes": "100%"}], **spec.pop("disruption", {})}
    if policy is not None:
        disruption["consolidationPolicy"] = policy
    template = {"spec": {"nodeClassRef": NODE_CLASS, "requirements": spec.pop("requirements", [])}}
    body = {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"template": template, "disruption": disruption, **spec},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": MOMENT}]},
    }
    return msgspec.convert(body, NodePool)


def pod(name: str, cpus: float = 1, gpus: int = 0, on: str = "", *, meta: Json | None = None, **spec: Any) -> CachedPod:
    """A pod of a ReplicaSet; without a Node it is pending."""
    requests = {"cpu": str(cpus), "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    about = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "ownerReferences": [REPLICA_SET],
        **(meta or {}),
    }
    body = {
        "metadata": about,
        "spec": {"nodeName": on, "containers": [{"resources": {"requests": requests}}], **spec},
        "status": {} if on else PENDING,
    }
    made = DIGEST(msgspec.convert(body, Pod))
    assert isinstance(made, CachedPod)
    return made


class Fleet:
    """Machines of NodePools; `view()` is what consolidation reads of them."""

    def __init__(self, *pools: NodePool, types: InstanceTypes = TYPES) -> None:
        self.pools = pools or (pool(),)
        self.types = types
        self.nodes: list[Node] = []
        self.claims: list[NodeClaim] = []
        self.pods: list[CachedPod] = []
        self.changed: dict[str, Mapping[str, Any]] = {}

    def add(
        self,
        name: str,
        size: str = T4,
        pods: Iterable[CachedPod | tuple[float, int]] = (),
        *,
        of: str = "gpu",
        term: str = "on-demand",
        node_class: str = "default",
        up: tuple[str, ...] = UP,
        labels: Mapping[str, str] | None = None,
        taints: Iterable[Mapping[str, str]] = (),
        **machine: Any,
    ) -> "Fleet":
        """A machine with pods, given as (CPUs, GPUs). `machine`: fields of `Machine`."""
        kind = next((one for one in self.types.types if one.name == size), TYPE_BY_NAME[T4])
        single = {key: one.single for key, one in kind.requirements.items() if one.single is not None}
        known = {
            **single,
            "node.kubernetes.io/instance-type": size,
            "kubernetes.io/hostname": name,
            "karpenter.sh/nodepool": of,
            "karpenter.sh/capacity-type": term,
            "karpenter.sh/registered": "true",
            **({"karpenter.sh/initialized": "true"} if "Initialized" in up else {}),
            **(labels or {}),
        }
        known = {key: value for key, value in known.items() if value}
        amounts = {r: f"{amount}m" for r, amount in kind.allocatable.items()}
        uid = next(one.metadata.uid for one in self.pools if one.name == of)
        owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": of, "uid": uid}
        conditions = [{"type": one, "status": "True", "lastTransitionTime": MOMENT} for one in up]
        claim = {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": known, "ownerReferences": [owner]},
            "spec": {"nodeClassRef": {**NODE_CLASS, "name": node_class}},
            "status": {"nodeName": name, "conditions": conditions},
        }
        node = {
            "metadata": {"name": name, "uid": f"node-{name}", "labels": known},
            "spec": {"taints": [*taints]},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        self.claims.append(msgspec.convert(claim, NodeClaim))
        self.nodes.append(msgspec.convert(node, Node))
        for number, one in enumerate(pods):
            placed = one if isinstance(one, CachedPod) else pod(f"{name}-{number}", *one, on=name)
            self.pods.append(placed)
        self.changed[name] = machine
        return self

    def pending(self, *pods: CachedPod) -> "Fleet":
        self.pods += pods
        return self

    def view(self, **changed: Any) -> View:
        machines = tuple(
            Machine(
                claim=claim,
                node=node,
                pods=tuple(one for one in self.pods if one.spec.node_name == node.name and one.own),
                **{"quiet_since": NOW, **self.changed[claim.name]},
            )
            for claim, node in zip(self.claims, self.nodes, strict=True)
        )
        budgets = {
            one.name: budget_left(one, count_of(m for m in machines if is_owned_by(m.claim, one)), "Underutilized", NOW)
            for one in self.pools
        }
        observed = Observed(
            node_pools=self.pools,
            nodes=self.nodes,
            claims=self.claims,
            pods=self.pods,
            max_new=changed.pop("max_new", 90),
        )
        parts: Json = {"machines": machines, "budgets": budgets, "now": NOW, "types": self.types}
        parts |= {"node_pools": self.pools, **changed}
        return View(observed=observed, **parts)

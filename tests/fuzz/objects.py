"""Objects of administrators and of other controllers at the limits of the API server and of the CRDs.

Source: https://github.com/kubernetes/kubernetes/tree/v1.34.0/pkg/apis, and the CRDs of the chart.
"""

from random import Random
from typing import Any

from tests import nvsentinel

from .pods import (
    AMOUNTS,
    INT32,
    NAMESPACE,
    POD_MUTATORS,
    Json,
    key,
    selector,
    some,
    text,
    word,
)

OPERATORS = ("In", "NotIn", "Exists", "Gt", "Lt")
SCHEDULES = ("@daily", "* * * * *", "0 0 29 2 *", "59 23 31 12 7", "*/59 */23 */31 */12 *", "0 0 31 2 *")


def _requirement_key(rng: Random) -> str:
    """A key that the CRDs of Karpenter accept."""
    while (found := key(rng)) in ("kubernetes.io/hostname", "karpenter.sh/nodepool"):
        pass
    return found


def _requirements(rng: Random) -> list[Json]:
    made = list[Json]()
    for _ in range(min(100, some(rng, 100))):
        operator = rng.choice(OPERATORS)
        values = [word(rng, 10) for _ in range(some(rng, 500))] if operator in ("In", "NotIn") else []
        values = [str(rng.choice((0, INT32, 5)))] if operator in ("Gt", "Lt") else values
        made.append({"key": _requirement_key(rng), "operator": operator, **({"values": values} if values else {})})
    return made


def _template(rng: Random, node_class: str, requirements: list[Json]) -> Json:
    reference = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": node_class}
    spec: Json = {"nodeClassRef": reference, "requirements": requirements, "terminationGracePeriod": "5m"}
    if rng.random() < 0.5:
        count = some(rng, 50)
        spec["taints"] = [{"key": key(rng), "value": word(rng), "effect": "NoSchedule"} for _ in range(count)]
    meta = {"labels": {f"example.com/{word(rng, 20)}": word(rng) for _ in range(some(rng, 50))},
            "annotations": {"note": text(rng, 20_000)}}  # fmt: skip
    return {"metadata": meta, "spec": spec}


def node_pool(rng: Random, name: str) -> list[Json]:
    """Requirements, budgets, schedules, limits and replicas."""
    budgets = [
        {
            "nodes": rng.choice(("0", "1", "100%", "9" * some(rng, 4_301), "10%")),
            "schedule": rng.choice((*SCHEDULES, ",".join(["1"] * some(rng, 20_000)) + " * * * *")),
            "duration": rng.choice(("1m", "2562047h47m", "24h")),
        }
        for _ in range(min(50, some(rng, 50)))
    ]
    spec: Json = {
        "template": _template(rng, "default", _requirements(rng)),
        "disruption": {"budgets": budgets, "consolidateAfter": rng.choice(("Never", "0s", "2562047h"))},
        "limits": {"nodes": "3", **{f"example.com/{word(rng, 10)}": "1" for _ in range(some(rng, 200))}},
    }
    if rng.random() < 0.4:
        spec |= {"replicas": rng.choice((0, 1, INT32, 100_000_000)), "limits": {"nodes": "3"}}
    else:
        spec["weight"] = rng.randint(1, 100)
    return [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}]


def node_class(rng: Random, name: str) -> list[Json]:
    """Readiness rules, tags and numbers of a node class, and a NodePool that refers to it."""
    rules = [
        {
            "name": f"r{index}",
            "taint": {"key": f"example.com/{index}", "effect": "NoSchedule"},
            "until": {
                "object": {
                    "version": "v1",
                    "resource": rng.choice(("pods", "nodes", "x")),
                    "name": "a",
                    "jsonPath": ".status.phase",
                    "value": "Ready",
                }
            },
        }
        for index in range(some(rng, 8))
    ]
    spec: Json = {
        "tags": {f"t{index}-{word(rng, 100)}": text(rng, 250) for index in range(some(rng, 47))},
        "maxPods": rng.choice((10, 250)),
        "osDiskSizeGB": rng.choice((30, 2048)),
    }
    if rng.random() < 0.5:
        spec["readiness"] = rules
    meta = {"name": name, "annotations": {"note": text(rng, 200_000)}}
    made = {"apiVersion": "gpu-provisioner.sh/v1alpha1", "kind": "AgentPoolNodeClass", "metadata": meta, "spec": spec}
    limits = {"nodes": "2"}
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": _template(rng, name, []), "limits": limits}}  # fmt: skip
    return [made, pool]


def node_claim(rng: Random, name: str) -> list[Json]:
    """Claims of another owner with strange requirements; few can be launched."""
    made = list[Json]()
    for number in range(some(rng, 5)):
        meta: Json = {
            "name": f"{name}-{number}",
            "labels": {"kaito.sh/workspace": "w", "kaito.sh/workspacenamespace": "default"},
            "annotations": {
                "gpu-provisioner.sh/replacements": "9" * some(rng, 4_400),
                "gpu-provisioner.sh/replaces": ",".join(word(rng, 36) for _ in range(some(rng, 1_000))),
                "gpu-provisioner.sh/retry": text(rng, 1_000),
                "karpenter.sh/nodeclaim-termination-timestamp": text(rng, 100),
            },
        }
        spec: Json = {
            "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
            "requirements": _requirements(rng)[:99],
            "resources": {"requests": {"storage": rng.choice(AMOUNTS[2:6])}},
            "terminationGracePeriod": "5m",
        }
        made.append({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": meta, "spec": spec})
    return made


def daemon_set(rng: Random, name: str) -> list[Json]:
    """Templates with the constraints of the pods; they select machines that do not exist."""
    made = list[Json]()
    for number in range(some(rng, 20)):
        template = rng.choice(POD_MUTATORS[:9])(rng, "x")[0]
        spec = {**template["spec"], "nodeSelector": {"example.com/none": "x"}}
        meta = {"name": f"{name}-{number}", "namespace": NAMESPACE}
        body = {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": spec},
        }
        made.append({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": body})
    return made


def budget(rng: Random, name: str) -> list[Json]:
    """PodDisruptionBudgets whose selectors are large, or select everything."""
    amounts: tuple[Any, ...] = (0, INT32, "0%", "100%")
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"{name}-{number}", "namespace": NAMESPACE},
            "spec": {
                rng.choice(("minAvailable", "maxUnavailable")): rng.choice(amounts),
                "selector": selector(rng, 500),
            },
        }
        for number in range(some(rng, 50))
    ]


def crd(rng: Random, name: str) -> list[Json]:
    """Definitions of others, each as large as those of cloud operators."""
    made = list[Json]()
    for number in range(some(rng, 100)):
        plural = f"{name.replace('-', '')}{number}s"
        schema = {"type": "object", "description": text(rng, 140_000), "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": plural, "kind": plural.capitalize(), "singular": plural[:-1]}
        made.append(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.example.com"},
                "spec": {"group": "example.com", "names": names, "scope": "Cluster", "versions": [version]},
            }
        )
    return made


def node(rng: Random, name: str) -> list[Json]:
    """Nodes of others with strange labels, taints and addresses of machines."""
    made = list[Json]()
    for number in range(some(rng, 100)):
        labels = {f"example.com/{word(rng, 10)}": word(rng) for _ in range(some(rng, 500))}
        labels |= {rng.choice(("agentpool", "karpenter.sh/nodepool", "topology.kubernetes.io/zone")): word(rng, 20)}
        taints = [{"key": f"example.com/{index}", "effect": "NoSchedule"} for index in range(some(rng, 200))]
        spec = {"taints": taints, "providerID": rng.choice(("", "azure:///" + "x" * some(rng, 5_000), "\u2028"))}
        meta = {"name": f"{name}-{number}", "labels": labels, "annotations": {"note": text(rng, 50_000)}}
        made.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec})
    return made


def resource_slice(rng: Random, name: str) -> list[Json]:
    """Devices of Nodes that may not exist, with as many attributes as a device may have."""
    made = list[Json]()
    for number in range(some(rng, 20)):
        devices = [
            {
                "name": f"d{index}",
                "attributes": {f"a{entry}": {"string": word(rng, 60)} for entry in range(some(rng, 30))},
                "capacity": {"memory": {"value": rng.choice(AMOUNTS[2:6])}},
            }
            for index in range(some(rng, 128))
        ]
        spec = {
            "driver": rng.choice(("gpu.nvidia.com", "example.com")),
            "nodeName": word(rng, 20),
            "pool": {"name": word(rng, 20), "generation": rng.choice((0, INT32)), "resourceSliceCount": INT32},
            "devices": devices,
        }
        meta = {"name": f"{name}-{number}"}
        made.append({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec})
    return made


def maintenance(rng: Random, name: str) -> list[Json]:
    """Requests of NVSentinel for Nodes with names that no Node can have, and with conditions of their own."""
    nodes = ("", "a/b", "../a", "\u2028", "A" * 300, "x" * 100_000, "a?b#c", ".", text(rng, 10_000))
    return [
        {
            "apiVersion": f"{nvsentinel.GROUP}/{nvsentinel.VERSION}",
            "kind": rng.choice(("TerminateNode", "RebootNode")),
            "metadata": {"name": f"{name}-{number}", "annotations": {"note": text(rng, 50_000)}},
            "spec": {"nodeName": rng.choice(nodes), "force": rng.random() < 0.5},
        }
        for number in range(some(rng, 100))
    ]


MUTATORS = (
    *POD_MUTATORS,
    node_pool,
    node_class,
    node_claim,
    daemon_set,
    budget,
    crd,
    node,
    resource_slice,
    maintenance,
)


def draw(rng: Random, name: str) -> tuple[str, list[Json]]:
    """The name of a mutator, and objects that it drew; their names begin with `name`."""
    mutator = rng.choice(MUTATORS)
    return mutator.__name__, mutator(rng, name)


def tenant() -> list[Json]:
    """The NodePool that the drawn pods may use."""
    template = _template(Random(0), "default", [])
    template["spec"].pop("taints", None)
    spec = {"template": {**template, "metadata": {}}, "limits": {"nodes": "10"}}
    return [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "tenant"}, "spec": spec}]

"""Pods, and what pods refer to, as any tenant may create them, at the limits of the API server.

Source: https://github.com/kubernetes/kubernetes/tree/v1.34.0/pkg/apis/core/validation.
"""

from random import Random
from typing import Any

Json = dict[str, Any]

NAMESPACE = "tenant"
INT32, INT64 = 2**31 - 1, 2**63 - 1
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
KEYS = (
    "topology.kubernetes.io/zone",
    "kubernetes.io/hostname",
    "node.kubernetes.io/instance-type",
    "karpenter.sh/capacity-type",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "example.com/rack",
)
TEXTS = ("\u2028", "\U0001f600", "<", "\u0000", "\u202e", "a", '"', "\\", "\ud7ff")


def some(rng: Random, most: int) -> int:
    """A number up to `most`: often small, often the limit."""
    return rng.choice((1, 2, 3, max(1, most // 100), max(1, most // 10), most))


def word(rng: Random, length: int = 63) -> str:
    """A label value of this length."""
    return "".join(rng.choices("abcdefghij0123456789", k=length))


def key(rng: Random) -> str:
    """A label key: one that means something, or a long one."""
    return rng.choice((*KEYS, f"{word(rng, 60)}.example.com/{word(rng)}", word(rng, rng.randint(1, 63))))


def text(rng: Random, most: int) -> str:
    """A string of at most `most` bytes."""
    one = rng.choice(TEXTS)
    return one * (some(rng, most) // len(one.encode()))


def expressions(rng: Random, terms: int, values: int) -> list[Json]:
    """Requirements of a selector."""
    made = list[Json]()
    for _ in range(terms):
        operator = rng.choice(OPERATORS)
        listed = [word(rng, 8) for _ in range(values)] if operator in ("In", "NotIn") else None
        made.append({"key": key(rng), "operator": operator, **({"values": listed} if listed else {})})
    return made


def selector(rng: Random, most: int = 20) -> Json:
    """A label selector: nothing, everything, or requirements."""
    return rng.choice(
        (
            {},
            {"matchLabels": {"app": "x"}},
            {"matchLabels": {key(rng): word(rng) for _ in range(some(rng, most))}},
            {"matchExpressions": expressions(rng, some(rng, most), some(rng, most))},
        )
    )


def pod(rng: Random, name: str, *, gpus: int = 1, labels: Json | None = None, **spec: Any) -> Json:
    """A pod that some machine may take."""
    amounts = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels or {"app": rng.choice("xyz")}},
        "spec": {"containers": [container], **spec},
    }


def relabelled(rng: Random, made: Json) -> Json:
    """A merge patch of an existing object: other labels and annotations."""
    meta = {name: made["metadata"][name] for name in ("name", "namespace") if name in made["metadata"]}
    meta["labels"] = {
        "app": rng.choice("xyz"),
        **{f"example.com/{word(rng, 20)}": word(rng) for _ in range(some(rng, 50))},
    }
    meta["annotations"] = {"note": text(rng, 100_000)}
    return {"apiVersion": made["apiVersion"], "kind": made["kind"], "metadata": meta}


def spread(rng: Random, name: str) -> list[Json]:
    """Topology spread constraints: their keys are distinct."""
    keys = [*KEYS, *(f"example.com/{number}" for number in range(60))]
    made = list[Json]()
    for one in rng.sample(keys, min(len(keys), some(rng, 40))):
        required = rng.random() < 0.5
        constraint: Json = {
            "maxSkew": rng.choice((1, 2, INT32)),
            "topologyKey": one,
            "whenUnsatisfiable": "DoNotSchedule" if required else "ScheduleAnyway",
            "labelSelector": selector(rng),
            "nodeAffinityPolicy": rng.choice(("Honor", "Ignore")),
            "nodeTaintsPolicy": rng.choice(("Honor", "Ignore")),
        }
        if required and rng.random() < 0.3:
            constraint["minDomains"] = rng.choice((1, 3, INT32))
        if constraint["labelSelector"] and rng.random() < 0.3:
            constraint["matchLabelKeys"] = [f"revision-{number}" for number in range(some(rng, 30))]
        made.append(constraint)
    return [pod(rng, f"{name}-{number}", topologySpreadConstraints=made) for number in range(some(rng, 20))]


def node_affinity(rng: Random, name: str) -> list[Json]:
    """Required and preferred terms, whose product is large."""
    terms, values = some(rng, 500), some(rng, 20)
    required = [{"matchExpressions": expressions(rng, rng.choice((1, 5)), values)} for _ in range(terms)]
    preferred = [
        {"weight": rng.randint(1, 100), "preference": {"matchExpressions": expressions(rng, 1, values)}}
        for _ in range(some(rng, 500))
    ]
    node: Json = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    if rng.random() < 0.7:
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": required}
    return [pod(rng, name, affinity={"nodeAffinity": node})]


def one_large_term(rng: Random, name: str) -> list[Json]:
    """One requirement with as many values as fit into an object."""
    term: Json = {"matchExpressions": [{"key": key(rng), "operator": rng.choice(("In", "NotIn")), "values": []}]}
    term["matchExpressions"][0]["values"] = [f"v{number}" for number in range(some(rng, 40_000))]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return [pod(rng, name, affinity={"nodeAffinity": required})]


def pod_affinity(rng: Random, name: str) -> list[Json]:
    """Terms about other pods, required and preferred, of many namespaces."""

    def term() -> Json:
        made: Json = {"topologyKey": key(rng), "labelSelector": selector(rng)}
        if rng.random() < 0.3:
            made["namespaces"] = [word(rng, 20) for _ in range(some(rng, 100))]
        if rng.random() < 0.3:
            made["namespaceSelector"] = selector(rng)
        return made

    affinity: Json = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        weighted = [{"weight": rng.randint(1, 100), "podAffinityTerm": term()} for _ in range(some(rng, 200))]
        required = [term() for _ in range(some(rng, 100))] if rng.random() < 0.5 else []
        affinity[kind] = {
            "preferredDuringSchedulingIgnoredDuringExecution": weighted,
            "requiredDuringSchedulingIgnoredDuringExecution": required,
        }
    return [pod(rng, f"{name}-{number}", affinity=affinity) for number in range(some(rng, 20))]


def short_terms(rng: Random, name: str) -> list[Json]:
    """As many required terms about other pods as fit into what is kept of a pod, each with a label of its own."""
    keys = some(rng, 1_000)
    terms = [
        {"topologyKey": f"k{number % keys}", "labelSelector": {"matchLabels": {f"a{number}": ""}}}
        for number in range(some(rng, 940))
    ]
    kind = rng.choice(("podAffinity", "podAntiAffinity"))
    affinity = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return [pod(rng, f"{name}-{number}", affinity=affinity) for number in range(some(rng, 10))]


def host_ports(rng: Random, name: str) -> list[Json]:
    """Each pod has its own ports: 65,535 numbers, three protocols."""
    made = list[Json]()
    for number in range(some(rng, 6)):
        one = pod(rng, f"{name}-{number}")
        first, protocol = rng.randint(1, 40_000), rng.choice(("TCP", "UDP", "SCTP"))
        one["spec"]["containers"][0]["ports"] = [
            {"containerPort": port, "hostPort": port, "protocol": protocol, **rng.choice(({}, {"hostIP": "127.0.0.1"}))}
            for port in range(first, first + some(rng, 10_000))
        ]
        made.append(one)
    return made


def tolerations(rng: Random, name: str) -> list[Json]:
    """Tolerations without a limit but the size of the object."""
    many = [{"key": key(rng), "operator": "Exists", "effect": "NoSchedule"} for _ in range(some(rng, 5_000))]
    return [pod(rng, name, tolerations=many)]


def node_selector(rng: Random, name: str) -> list[Json]:
    """A node selector with as many labels as fit."""
    return [pod(rng, name, nodeSelector={f"example.com/{word(rng, 20)}": word(rng) for _ in range(some(rng, 5_000))})]


AMOUNTS = (str(INT64), "9223372036854775807Ei", "1n", "0", "1e18", "0.000000001", "1" * 30, "1E")


def resources(rng: Random, name: str) -> list[Json]:
    """Quantities at both ends, and many resources and containers."""
    made = list[Json]()
    for number in range(some(rng, 10)):
        one = pod(rng, f"{name}-{number}")
        whole = {f"example.com/{word(rng, 20)}": str(rng.randint(1, INT32)) for _ in range(some(rng, 300))}
        amounts = {"cpu": rng.choice(AMOUNTS), "memory": rng.choice(AMOUNTS), **whole}
        container = {"image": "x", "resources": {"requests": amounts, "limits": amounts}}
        count = some(rng, 100)
        one["spec"]["containers"] = [{**container, "name": f"c{index}"} for index in range(count)]
        init = [{**container, "name": f"i{index}", "restartPolicy": "Always"} for index in range(some(rng, 50))]
        one["spec"]["initContainers"] = init
        made.append(one)
    return made


def annotations(rng: Random, name: str) -> list[Json]:
    """256 KiB of text, in which one character can take six bytes of JSON."""
    made = list[Json]()
    for number in range(some(rng, 20)):
        one = pod(rng, f"{name}-{number}")
        one["metadata"]["annotations"] = {"note": text(rng, 250_000), "karpenter.sh/do-not-disrupt": text(rng, 40)}
        made.append(one)
    return made


def shapes(rng: Random, name: str) -> list[Json]:
    """Pods none of which equals another one."""
    made = list[Json]()
    for number in range(some(rng, 300)):
        one = pod(rng, f"{name}-{number}", labels={"app": f"a{number}"})
        amounts = {"cpu": f"{100 + number}m", "memory": f"{100 + number}Mi"}
        one["spec"]["containers"][0]["resources"] = {"requests": amounts}
        one["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": rng.choice(KEYS),
                "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": f"a{number % 50}"}},
            }
        ]
        made.append(one)
    return made


def volumes(rng: Random, name: str) -> list[Json]:
    """PersistentVolumeClaims and volumes; the API server does not validate their names in references."""
    odd = ("a/b", "../a", "%2e%2e", "a b", "\u2028", "A" * 300, "-", "a#?b", ".", "..")
    made = list[Json]()
    volumes = [{"name": f"v{index}", "persistentVolumeClaim": {"claimName": rng.choice((*odd, f"{name}-{index}"))}}
               for index in range(some(rng, 300))]  # fmt: skip
    made.append(pod(rng, name, volumes=volumes))
    for index in range(some(rng, 20)):
        spec: Json = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": rng.choice(("1n", "1e18"))}},
            "storageClassName": rng.choice((f"{name}-class", "a" * 253, "")),
        }
        if rng.random() < 0.5:
            spec["volumeName"] = rng.choice((*odd, f"{name}-volume"))
        meta = {"name": f"{name}-{index}", "namespace": NAMESPACE, "annotations": {"x": text(rng, 10_000)}}
        made.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})
    terms = [{"matchExpressions": expressions(rng, some(rng, 10), some(rng, 50))} for _ in range(some(rng, 200))]
    made.append(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{name}-volume"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "disk.csi.azure.com", "volumeHandle": text(rng, 1_000) or "x"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            },
        }
    )
    topologies = [
        {"matchLabelExpressions": [{"key": key(rng), "values": [word(rng, 8) for _ in range(some(rng, 50))]}]}
        for _ in range(some(rng, 500))
    ]
    made.append(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": f"{name}-class"},
            "provisioner": "disk.csi.azure.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": topologies,
        }
    )
    return made


def devices(rng: Random, name: str) -> list[Json]:
    """ResourceClaims with as many requests, alternatives and selectors as the API has room for."""

    def request(index: int) -> Json:
        cel = [{"cel": {"expression": rng.choice(CELS)}} for _ in range(some(rng, 32))]
        exactly = {"deviceClassName": "gpu.nvidia.com", "selectors": cel, "count": rng.choice((1, 8, INT64))}
        if rng.random() < 0.5:
            return {"name": f"r{index}", "exactly": {**exactly, "allocationMode": "ExactCount"}}
        return {
            "name": f"r{index}",
            "firstAvailable": [{"name": f"s{number}", **exactly} for number in range(some(rng, 8))],
        }

    spec = {"devices": {"requests": [request(index) for index in range(some(rng, 32))]}}
    meta = {"name": name, "namespace": NAMESPACE}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": spec}
    template = {**claim, "kind": "ResourceClaimTemplate", "spec": {"spec": spec}}
    entries = [
        {"name": f"c{index}", rng.choice(("resourceClaimName", "resourceClaimTemplateName")): name}
        for index in range(some(rng, 30))
    ]
    return [claim, template, *(pod(rng, f"{name}-{n}", gpus=0, resourceClaims=entries) for n in range(some(rng, 10)))]


CELS = (
    "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$')",
    "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
    "!(" * 20 + "true" + ")" * 20,
    " || ".join(f"device.attributes['gpu.nvidia.com'].productName == '{number}'" for number in range(100)),
    "device.driver == '" + "\U0001f600" * 1_000 + "'",
    "(" * 20 + "true" + ")" * 20,
)

POD_MUTATORS = (
    spread,
    node_affinity,
    one_large_term,
    pod_affinity,
    short_terms,
    host_ports,
    tolerations,
    node_selector,
    resources,
    annotations,
    shapes,
    volumes,
    devices,
)

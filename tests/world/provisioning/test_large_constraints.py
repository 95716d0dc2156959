"""Pods with more constraints than a decision can compare: whoever creates one delays no other pod."""

import re

import pytest

from provisioner.api import labels
from provisioner.api.byte_budget import ByteBudget
from tests.world.demand import node_class, node_pool, pending, pod, pod_events, watches_pods
from tests.world.harness import Json, Sim, simulated
from tests.world.metric_samples import Numbers, start

SERVED_SECONDS = 15.0
SKU = "karpenter.azure.com/sku-"
OF_SIZES = [
    labels.ZONE,
    labels.INSTANCE_TYPE,
    *(SKU + one for one in ("name", "family", "version", "cpu", "memory", "gpu-name", "gpu-count")),
]


def absent(prefix: str, number: int) -> Json:
    return {"matchExpressions": [{"key": f"{prefix}{number}", "operator": "DoesNotExist"}]}


def many_labels() -> Json:
    selector: Json = {"matchLabels": {}}
    spread = [{"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for key in OF_SIZES]
    return {"topologySpreadConstraints": [{**one, "labelSelector": selector} for one in spread]}


def many_node_terms(count: int = 300) -> Json:
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [absent("a", number) for number in range(count)]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": absent("b", number)} for number in range(count)
        ],
    }
    return {"affinity": {"nodeAffinity": affinity}}


def many_expressions() -> Json:
    """One term of 500 expressions."""
    one = {"matchExpressions": [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(500)]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [one]}}
    return {"affinity": {"nodeAffinity": required}}


def many_pod_terms() -> Json:
    terms = [
        {
            "weight": 1,
            "podAffinityTerm": {"topologyKey": labels.ZONE, "labelSelector": {"matchLabels": {"app": f"x{number}"}}},
        }
        for number in range(400)
    ]
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def many_required_pod_terms() -> Json:
    """As many terms as a pod of 64 KiB has, each with a label and a topology key of its own."""
    terms = [
        {"topologyKey": f"k{number}", "labelSelector": {"matchLabels": {f"a{number}": ""}}} for number in range(940)
    ]
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


SERVED = {"nine labels": many_labels, "expressions": many_expressions}
REFUSED = {
    "node affinity": (many_node_terms, "302 sets of preferences .* at most 100,000 are made for one pod"),
    "pod affinity": (many_pod_terms, "402 sets of preferences .* at most 100,000 are made for one pod"),
}


async def started(sim: Sim) -> Numbers:
    await sim.apply(node_class())
    await sim.apply(node_pool())
    numbers = await start(sim)
    await sim.until(lambda: watches_pods(sim), 60.0, "pods are watched")
    return numbers


async def served(sim: Sim, *names: str) -> None:
    """Each of these pods has a NodeClaim in time."""
    await sim.until(
        lambda: all(any(reason == "Nominated" for reason, _ in pod_events(sim, name)) for name in names),
        SERVED_SECONDS,
        "NodeClaims",
    )


@pytest.mark.parametrize("kind", SERVED)
def test_a_pod_with_many_constraints_gets_its_machine(kind: str) -> None:
    """Only domains that exist count, and each expression is compared once."""

    @simulated()
    async def story(sim: Sim) -> None:
        await started(sim)
        await pending(sim, pod("large", **SERVED[kind]()), pod("other"))
        await served(sim, "large", "other")

    story()


@simulated()
async def test_pods_that_need_a_pod_that_nobody_creates(sim: Sim) -> None:
    """Ten pods with a thousand terms of pod affinity each wait with the cause, and the pod beside them is served."""
    await started(sim)
    large = [pod(f"large-{number}", **many_required_pod_terms()) for number in range(10)]
    await pending(sim, *large, pod("other"))
    await served(sim, "other")
    await sim.until(lambda: pod_events(sim, "large-0"), SERVED_SECONDS, "an Event of a large pod")
    assert [reason for reason, _ in pod_events(sim, "large-0")] == ["FailedScheduling"]


@pytest.mark.parametrize("kind", REFUSED)
def test_a_pod_with_constraints_that_are_too_large_is_set_aside(kind: str) -> None:
    """Its Event names what is too large and the limit, a metric counts it, and the pod beside it gets its machine."""
    constraints, message = REFUSED[kind]

    @simulated()
    async def story(sim: Sim) -> None:
        numbers = await started(sim)
        await pending(sim, pod("large", **constraints()), pod("other"))
        await served(sim, "other")
        ((reason, found),) = pod_events(sim, "large")
        assert reason == "FailedScheduling"
        assert re.search(message, found), found
        assert numbers.total("gpu_provisioner_pods_set_aside") == 1

    story()


def of(namespace: str, name: str, size: int) -> Json:
    """A pod of a namespace whose node affinity, which every machine satisfies, has so many bytes of its own."""
    values = [f"{name}-{number:04}".ljust(40, "x") for number in range(size // 43)]
    term = {"matchExpressions": [{"key": "example.com/a", "operator": "NotIn", "values": values}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    body = pod(name, affinity=affinity)
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


@simulated()
async def test_large_pods_of_one_tenant_take_no_room_of_others(sim: Sim) -> None:
    """Within its share a namespace is served at once; what is beyond it is served soon after there is room."""
    limits = {"small": 2048, "each": 65_536, "total": 200_000, "reserved": 40_000, "namespaces": lambda: 0}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ByteBudget.__init__, "__kwdefaults__", limits)
        await started(sim)
        for namespace in ("evil", "good"):
            sim.store.create("namespaces", {"metadata": {"name": namespace}})
        await pending(sim, *(of("evil", f"evil-{number}", 40_000) for number in range(6)))
        await pending(sim, of("good", "within", 3000), of("good", "beyond", 40_000))
        await served(sim, "within", "evil-0")
        await sim.until(lambda: pod_events(sim, "beyond"), SERVED_SECONDS, "an Event of the pod that is refused")
        assert "the most that is kept" in pod_events(sim, "beyond")[0][1]
        sim.store.delete("pods", "evil-0", "evil")
        await served(sim, "beyond")

"""Alternatives of devices: the first one that a machine serves; what exists or is paid for comes first."""

from typing import Any

import msgspec
import pytest

from cloudprovider.azure.quota import family_of, quotas_left
from cloudprovider.interface import Usage
from controllers.disruption.gpu_models import GpuModels
from controllers.disruption.gpu_parts import GpuParts
from controllers.model.storage import DeviceClaims, Storage
from controllers.provisioning.demand import with_volumes
from controllers.provisioning.fit import fit
from controllers.provisioning.observed import Observed
from controllers.provisioning.pods import CachedPod
from controllers.provisioning.solver.bounds import Bounds
from controllers.provisioning.solver.candidates import candidates
from controllers.provisioning.solver.host_index import HostIndex
from controllers.provisioning.solver.model import Decision, ExistingNode
from controllers.provisioning.solver.offers import Offers
from controllers.provisioning.solver.solver import solve
from provisioner.api import labels
from provisioner.api.deviceclaim import DeviceClass, ResourceClaimTemplate
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.value_sets import one_of

from .observed import CLOUD, REGION, T4, TOLERATES, TYPES, claim, node_pool, observe, pod

H100, FOUR = "Standard_NC40ads_H100_v5", "Standard_NC64as_T4_v3"
PRODUCT = 'device.attributes["gpu.nvidia.com"].productName'
DEVICE = "resource.kubernetes.io/gpu.nvidia.com"
DRA = msgspec.convert({"metadata": {"name": "default"}, "spec": {"gpu": {"mode": "DRA"}}}, AgentPoolNodeClass)


def alternatives(*options: tuple[str, int]) -> Storage:
    """A template of one request: so many devices of a product, or of a driver."""
    requests = [
        {
            "name": f"o{number}",
            "deviceClassName": "gpu",
            "count": count,
            "selectors": [
                {
                    "cel": {
                        "expression": f"device.driver == '{what}'" if "." in what else f"{PRODUCT}.contains('{what}')"
                    }
                }
            ],
        }
        for number, (what, count) in enumerate(options)
    ]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": requests}]}}
    template = msgspec.convert({"metadata": {"name": "t"}, "spec": {"spec": spec}}, ResourceClaimTemplate)
    classes = {"gpu": msgspec.convert({"spec": {"selectors": []}}, DeviceClass)}
    found = DeviceClaims(requested=frozenset(("default/t",)), templates={"default/t": template}, classes=classes)
    return Storage(devices=found)


def claiming(name: str, **spec: Any) -> CachedPod:
    uses = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    found = pod(name, gpus=0, resourceClaims=uses, tolerations=TOLERATES, **spec)
    assert isinstance(found, CachedPod)
    return found


def decide(storage: Storage, *sizes: str, pods: int = 1, **parts: Any) -> Decision:
    pools = (node_pool(requirements=[{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [*sizes]}]),)
    wanted = tuple(claiming(f"p{n}") for n in range(pods))
    given = {"node_pools": pools, "node_classes": {"default": DRA}, **parts}
    found = observe(pods=wanted, storage=storage, **given)
    assert not found.errors
    return solve(found.snapshot)


@pytest.mark.parametrize(
    ("options", "sizes", "bought"),
    [
        ([("H100", 1), ("T4", 4)], (H100, FOUR), H100),
        ([("H100", 1), ("T4", 4)], (FOUR,), FOUR),
        ([("T4", 4), ("H100", 1)], (H100, FOUR), FOUR),
        ([("H100", 2), ("H100", 1)], (H100,), H100),
        ([("gpu.amd.com", 1), ("gpu.nvidia.com", 1)], (T4,), T4),
        ([("H100", 1), ("T4", 1)], (H100, T4), T4),
    ],
)
def test_the_first_alternative_that_a_nodepool_serves(
    options: list[tuple[str, int]], sizes: tuple[str, ...], bought: str
) -> None:
    """Also with other counts or another driver; among alternatives with equal counts the price decides."""
    decision = decide(alternatives(*options), *sizes)
    assert [one.instance_types[0] for one in decision.machines] == [bought]
    assert not decision.errors


def test_no_alternative() -> None:
    """The pod states what its first alternative lacks."""
    decision = decide(alternatives(("H100", 1), ("A100", 2)), T4)
    assert not decision.machines
    assert "H100" in decision.errors["default/p0"]


def test_the_quota_of_the_first_alternative_ends() -> None:
    """Of three pods one gets an H100, the others the next alternative."""
    usages = {family_of(H100).casefold().replace(" ", ""): Usage(limit=40, used=0)}
    quotas = quotas_left(usages, (family_of(H100),), REGION)
    decision = decide(alternatives(("H100", 1), ("T4", 4)), H100, FOUR, pods=3, quotas=quotas)
    assert sorted(one.instance_types[0] for one in decision.machines) == sorted([H100, FOUR, FOUR])


def test_a_machine_that_was_bought_for_a_later_alternative_takes_its_pod() -> None:
    """The first alternative can be bought again: no second machine is, while the other one starts."""
    coming = claim("nc", size=FOUR)
    spec = msgspec.structs.replace(coming.spec, node_class_ref=node_pool().spec.template.spec.node_class_ref)
    coming = msgspec.structs.replace(coming, spec=spec)
    decision = decide(alternatives(("H100", 1), ("T4", 4)), H100, FOUR, claims=(coming,))
    assert (decision.machines, [*decision.existing.values()]) == ((), [("default/p0",)])


def test_a_node_fits_with_any_alternative() -> None:
    """A machine of a later alternative is no misfit, and no bound of prices is above it."""
    found = with_volumes(claiming("p"), alternatives(("H100", 1), ("T4", 4)), CLOUD)
    requirements = {labels.INSTANCE_TYPE: one_of((FOUR,))}
    allocatable = {"cpu": 60_000, "memory": 10**14, "pods": 110_000, DEVICE: 4000}
    machine = ExistingNode(name="n", requirements=requirements, taints=(), allocatable=allocatable)
    assert fit(machine, found, (), TYPES.well_known).verdict == "fits"
    small = msgspec.structs.replace(machine, allocatable={**allocatable, DEVICE: 3000})
    assert fit(small, found, (), TYPES.well_known).verdict != "fits"


def test_a_running_pod_keeps_its_model_with_each_alternative() -> None:
    """What restricts a pod restricts all of its alternatives."""
    found = with_volumes(claiming("p"), alternatives(("H100", 1), ("T4", 4)), CLOUD)
    kept = GpuModels(TYPES, GpuParts(Observed(node_pools=(), nodes=(), claims=(), pods=()), CLOUD)).kept(
        found, FOUR, "n"
    )
    assert len(kept.choices) == 2
    for one in kept.choices:
        assert all(H100 not in required[labels.INSTANCE_TYPE].values for required in one.alternatives)


def test_the_bound_of_a_price() -> None:
    """It is never above what a decision pays for a later alternative."""
    storage = alternatives(("H100", 1), ("T4", 4))
    sizes = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [FOUR]}]
    found = observe(
        pods=(claiming("p"),),
        storage=storage,
        node_pools=(node_pool(requirements=sizes),),
        node_classes={"default": DRA},
    ).snapshot
    bounds = Bounds(HostIndex([], found.well_known), Offers(candidates(found), found.well_known))
    assert 0 < bounds.of(found.pods, 0).alone <= solve(found).price

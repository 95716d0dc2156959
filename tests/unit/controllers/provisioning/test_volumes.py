"""The table of volumes: where a pod can run because of them, and why no machine is bought for it."""

from typing import Any

import msgspec
import pytest

from controllers.model.storage import Storage
from controllers.provisioning.pods import CachedPod
from controllers.provisioning.solver.requirements import Requirements
from controllers.provisioning.solver.solver import solve
from controllers.provisioning.volumes import volume_requirements
from provisioner.api.value_sets import ABSENT, one_of
from provisioner.api.volume import PersistentVolume, PersistentVolumeClaim, StorageClass

from .observed import TOLERATES, observe, pod

ZONE, DISK_ZONE, HOST = "topology.kubernetes.io/zone", "topology.disk.csi.azure.com/zone", "kubernetes.io/hostname"


def claim(volume: str = "", *, storage_class: str | None = None, phase: str = "", **meta: Any) -> PersistentVolumeClaim:
    body = {
        "metadata": {"name": "data", **meta},
        "spec": {"volumeName": volume, "storageClassName": storage_class},
        "status": {"phase": phase},
    }
    return msgspec.convert(body, PersistentVolumeClaim)


def volume(*terms: dict[str, list[str]]) -> PersistentVolume:
    """A volume that can be used where one of the terms holds; everywhere without a term."""
    selector = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in term.items()]}
        for term in terms
    ]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": selector}}} if terms else {}
    return msgspec.convert({"metadata": {"name": "v"}, "spec": affinity}, PersistentVolume)


def storage_class(*terms: dict[str, list[str]], **fields: Any) -> StorageClass:
    topologies = [
        {"matchLabelExpressions": [{"key": key, "values": values} for key, values in term.items()]} for term in terms
    ]
    body = {
        "metadata": {"name": "disk"},
        "provisioner": "disk.csi.azure.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": topologies,
        **fields,
    }
    return msgspec.convert(body, StorageClass)


def storage(
    claims: dict[str, PersistentVolumeClaim],
    volumes: dict[str, PersistentVolume] | None = None,
    of_class: StorageClass | None = None,
) -> Storage:
    named = {f"default/{name}": one for name, one in claims.items()}
    classes = {"disk": of_class} if of_class else {}
    return Storage(requested=frozenset(named), claims=named, volumes=volumes or {}, classes=classes)


BOUND = {"data": claim("v")}
UNBOUND = {"data": claim(storage_class="disk")}
REGIONAL = ({ZONE: ABSENT}, {ZONE: one_of("0")})
WHERE: list[tuple[str, Storage, tuple[Requirements, ...]]] = [
    ("volume of a zone", storage(BOUND, {"v": volume({ZONE: ["eastus-2"]})}), ({ZONE: one_of(["eastus-2"])},)),
    (
        "volume of the disk driver",
        storage(BOUND, {"v": volume({DISK_ZONE: ["eastus-2"]})}),
        ({ZONE: one_of(["eastus-2"])},),
    ),
    ("volume outside all zones", storage(BOUND, {"v": volume({DISK_ZONE: [""]})}), REGIONAL),
    (
        "zone-redundant volume",
        storage(BOUND, {"v": volume({DISK_ZONE: ["eastus-1"]}, {DISK_ZONE: ["eastus-2"]}, {DISK_ZONE: [""]})}),
        ({ZONE: one_of(["eastus-1"])}, {ZONE: one_of(["eastus-2"])}, *REGIONAL),
    ),
    ("volume without affinity", storage(BOUND, {"v": volume()}), ()),
    ("local volume", storage(BOUND, {"v": volume({HOST: ["n1"]})}), ({HOST: one_of(["n1"])},)),
    ("class without topologies", storage(UNBOUND, of_class=storage_class()), ()),
    (
        "class of two zones",
        storage(UNBOUND, of_class=storage_class({DISK_ZONE: ["eastus-1", "eastus-2"]})),
        ({ZONE: one_of(["eastus-1", "eastus-2"])},),
    ),
    (
        "class and volume",
        storage(
            {"data": claim("v"), "more": claim(storage_class="disk")},
            {"v": volume({ZONE: ["eastus-2"]})},
            storage_class({ZONE: ["eastus-1"]}, {ZONE: ["eastus-2"]}),
        ),
        ({ZONE: one_of(["eastus-2"])},),
    ),
]


@pytest.mark.parametrize(("found", "expected"), [row[1:] for row in WHERE], ids=[row[0] for row in WHERE])
def test_where_volumes_can_be_used(found: Storage, expected: tuple[Requirements, ...]) -> None:
    """Each alternative suffices; volumes of several zones exclude each other."""
    assert volume_requirements([*found.claims], found) == expected


MOMENT = "2026-03-01T12:00:00Z"
WHY: list[tuple[str, Storage, str]] = [
    ("no claim", storage({}), "default/data does not exist"),
    ("claim that is being deleted", storage({"data": claim("v", deletionTimestamp=MOMENT)}), "is being deleted"),
    (
        "lost volume",
        storage({"data": claim("v", phase="Lost")}, {"v": volume()}),
        "PersistentVolume v, which does not exist",
    ),
    ("volume that is gone", storage(BOUND), "PersistentVolume v, which does not exist"),
    ("no class", storage({"data": claim()}), "set spec.storageClassName"),
    ("class that is gone", storage(UNBOUND), "StorageClass disk does not exist"),
    (
        "immediate binding",
        storage(UNBOUND, of_class=storage_class(volumeBindingMode="Immediate")),
        "binds volumes at once",
    ),
    (
        "no provisioner",
        storage(UNBOUND, of_class=storage_class(provisioner="kubernetes.io/no-provisioner")),
        "provisions no volumes",
    ),
    (
        "volumes of two zones",
        storage(
            {"data": claim("v"), "more": claim("w")},
            {"v": volume({ZONE: ["eastus-1"]}), "w": volume({ZONE: ["eastus-2"]})},
        ),
        "no Node can use all of its volumes: default/data, default/more exclude each other",
    ),
    ("contradictory topology", storage(BOUND, {"v": volume({ZONE: ["a"], DISK_ZONE: ["b"]})}), "PersistentVolume v"),
    ("failed request", Storage(error="403 Forbidden"), "cannot be read: 403 Forbidden"),
]


@pytest.mark.parametrize(("found", "expected"), [row[1:] for row in WHY], ids=[row[0] for row in WHY])
def test_volumes_for_which_no_machine_is_bought(found: Storage, expected: str) -> None:
    """The cause names the object, because a machine would not help the pod."""
    with pytest.raises(ValueError, match=expected):
        volume_requirements([*found.claims] or ["default/data"], found)


def with_volume(name: str, claim_name: str = "data", **spec: Any) -> Any:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]
    return pod(name, tolerations=TOLERATES, volumes=volumes, **spec)


def test_zone_of_a_machine() -> None:
    """The machine is bought in the zone of the volume, and a pod beside it whose volume is lost stops nothing."""
    there = storage(BOUND, {"v": volume({DISK_ZONE: ["eastus-2"]})})
    found = observe(pods=(with_volume("p"), with_volume("lost", "none")), storage=there)
    (machine,) = solve(found.snapshot).machines
    assert machine.pods == ("default/p",)
    assert machine.requirements[ZONE].values == {"eastus-2"}
    assert found.errors == {"default/lost": "PersistentVolumeClaim default/none does not exist"}


def test_pod_that_selects_another_zone() -> None:
    """No machine outside all zones is bought because the zones of a pod and of its volume exclude each other."""
    there = storage(BOUND, {"v": volume({ZONE: ["eastus-2"]})})
    found = observe(pods=(with_volume("p", nodeSelector={ZONE: "eastus-1"}),), storage=there)
    assert found.errors == {"default/p": f"its volumes require {ZONE} In [eastus-2], but the pod {ZONE} In [eastus-1]"}


def test_preferred_zone_of_a_pod() -> None:
    """A preference that the volume excludes is given up."""
    there = storage(BOUND, {"v": volume({ZONE: ["eastus-2"]})})
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["eastus-1"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    found = observe(pods=(with_volume("p", affinity={"nodeAffinity": preferred}),), storage=there)
    (machine,) = solve(found.snapshot).machines
    assert machine.requirements[ZONE].values == {"eastus-2"}


def test_claim_of_an_ephemeral_volume() -> None:
    """It has the name of the pod and of the volume; a pod with both kinds has two claims."""
    volumes = [{"name": "cache", "ephemeral": {}}, {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    found = pod("p", volumes=volumes)
    assert isinstance(found, CachedPod)
    assert found.claims == ("default/p-cache", "default/data")

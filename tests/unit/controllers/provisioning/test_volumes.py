"""The table of volumes: where a pod can run because of them, and why no machine is bought for it."""

from typing import Any

import msgspec
import pytest

from controllers.model.storage import Storage
from controllers.provisioning import volumes
from controllers.provisioning.demand import with_volumes
from controllers.provisioning.pods import CachedPod, PodDigest
from controllers.provisioning.solver.comparisons import TooLargeError
from controllers.provisioning.solver.solver import solve
from controllers.provisioning.volumes import compatible, volume_requirements
from provisioner.api.pod import Pod
from provisioner.api.requirements import Requirements, excludes
from provisioner.api.value_sets import ABSENT, one_of
from provisioner.api.volume import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim, StorageClass

from .observed import CLOUD, TOLERATES, observe, pod

ZONE, DISK_ZONE, HOST = "topology.kubernetes.io/zone", "topology.disk.csi.azure.com/zone", "kubernetes.io/hostname"


def claim(volume: str = "", *, storage_class: str | None = None, phase: str = "", **meta: Any) -> PersistentVolumeClaim:
    """Bound to its volume, if it has one."""
    body = {
        "metadata": {
            "name": "data",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"} if volume else {},
            **meta,
        },
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
SELECTED = {"data": claim(storage_class="disk", annotations={SELECTED_NODE: "n1"})}
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
        "class whose volume is provisioned for a Node",
        storage(SELECTED, of_class=storage_class({DISK_ZONE: ["eastus-1"]})),
        ({HOST: one_of(["n1"])},),
    ),
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
    (
        "volume that is not bound yet",
        storage({"data": claim("v", phase="Pending", annotations={})}, {"v": volume()}),
        "is not yet bound to PersistentVolume v",
    ),
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
    (
        "failed request",
        Storage(unread={"default/data": "403 Forbidden"}),
        "PersistentVolumeClaim default/data cannot be read: 403 Forbidden",
    ),
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
    there = msgspec.structs.replace(there, requested=there.requested | {"default/none"})
    found = observe(pods=(with_volume("p"), with_volume("lost", "none"), with_volume("late", "new")), storage=there)
    (machine,) = solve(found.snapshot).machines
    assert machine.pods == ("default/p",)
    assert machine.requirements[ZONE].values == {"eastus-2"}
    assert found.errors == {
        "default/lost": "PersistentVolumeClaim default/none does not exist",
        "default/late": "its volumes or its devices have not been read yet",
    }


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


def many(prefix: str, count: int) -> list[dict[str, list[str]]]:
    return [{f"{prefix}/{number}": ["a"]} for number in range(count)]


def bound(*of: list[dict[str, list[str]]]) -> Storage:
    """Claims that are bound to volumes with these terms each."""
    claims = {f"c{number}": claim(f"v{number}") for number in range(len(of))}
    return storage(claims, {f"v{number}": volume(*terms) for number, terms in enumerate(of)})


def provisioned(*of: list[dict[str, list[str]]]) -> Storage:
    """Claims of StorageClasses with these topologies each."""
    claims = {f"c{number}": claim(storage_class=f"s{number}") for number in range(len(of))}
    classes = {f"s{number}": storage_class(*terms, metadata={"name": f"s{number}"}) for number, terms in enumerate(of)}
    return msgspec.structs.replace(storage(claims), classes=classes)


def keys(found: Storage) -> list[str]:
    return sorted(found.claims)


PRODUCTS = [[many("a", 60), many("b", 60), many("c", 60)], [many("a", 1000), many("b", 1000)], [many("a", 30_000)]]


@pytest.mark.parametrize("of", PRODUCTS, ids=["three", "two", "one"])
@pytest.mark.parametrize("made", [bound, provisioned])
def test_topologies_beyond_the_limit_are_not_compared(of: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms of volumes and of StorageClasses multiply: what is too much is counted before it is compared."""
    compared = list[int]()

    def counted(one: Requirements, other: Requirements) -> str:
        compared.append(len(other))
        return excludes(one, other)

    monkeypatch.setattr(volumes, "excludes", counted)
    found = made(*of)
    for _ in range(3):
        with pytest.raises(TooLargeError, match="more than 10,000 comparisons of labels: remove terms"):
            volume_requirements(keys(found), found)
    assert sum(compared) <= (len(of) + 1) * volumes.COMBINED_MAX, "also repeated requests compare nothing again"


@pytest.mark.parametrize("made", [bound, provisioned])
def test_equal_topologies_are_one(made: Any) -> None:
    """Many volumes of the same zones neither multiply nor are compared for each pod again."""
    zones = [{ZONE: [f"eastus-{zone}"]} for zone in "123"]
    found = made(*[zones] * 500)
    names = keys(found)
    first = volume_requirements(names, found)
    assert first == tuple({ZONE: one_of([f"eastus-{zone}"])} for zone in "123")
    assert all(volume_requirements([name], found) is first for name in names)


def test_a_term_with_thousands_of_labels_is_counted() -> None:
    """Each label is combined with those before it, so that they multiply within one term as well."""
    found = bound([{f"k/{number}": ["a"] for number in range(5000)}])
    with pytest.raises(TooLargeError, match="PersistentVolume v takes more than 10,000 comparisons"):
        volume_requirements(keys(found), found)


def test_pods_with_many_terms_are_compared_with_volumes_in_bounded_work() -> None:
    """What the pod requires is multiplied with what its volumes require before either excludes the other."""
    pods = tuple({f"p/{number}": one_of("a")} for number in range(20_000))
    with pytest.raises(TooLargeError, match="more than 100,000"):
        compatible(pods, tuple({f"v/{number}": one_of("b")} for number in range(1000)))


def test_equal_pods_share_what_their_volumes_require() -> None:
    """What a pod and its volumes require is combined once for equal pods, and again for a new reading of volumes."""
    digest, there = PodDigest(), storage({"one": claim("v"), "more": claim("v")}, {"v": volume({ZONE: ["eastus-2"]})})
    equal = [
        cached(
            digest, {"metadata": {"name": name}, "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": name}}]}}
        )
        for name in ("one", "more")
    ]
    first, second = (with_volumes(one, there, CLOUD) for one in equal)
    assert first is second
    assert first.volumes == ({ZONE: one_of(["eastus-2"])},)
    elsewhere = msgspec.structs.replace(there, volumes={"v": volume({ZONE: ["eastus-3"]})})
    assert with_volumes(equal[0], elsewhere, CLOUD).volumes == ({ZONE: one_of(["eastus-3"])},)


def cached(digest: PodDigest, body: dict[str, Any]) -> CachedPod:
    found = digest(msgspec.convert({**body, "metadata": {"namespace": "default", **body["metadata"]}}, Pod))
    assert isinstance(found, CachedPod)
    return found


def test_a_topology_that_no_machine_has() -> None:
    """A StorageClass that allows a label which no machine has: nothing is bought."""
    there = storage(UNBOUND, of_class=storage_class({"example.com/rack": ["r1"]}))
    found = observe(pods=(with_volume("p"),), storage=there)
    decision = solve(found.snapshot)
    assert not decision.machines
    assert "default/p" in {**found.errors, **decision.errors}


def test_the_zone_of_a_volume_holds_with_each_term() -> None:
    """Of two required terms one names a label that no machine has; the other one is used, in the zone of the volume."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        for key, value in (("example.com/label", "none"), ("karpenter.sh/capacity-type", "on-demand"))
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    there = storage(BOUND, {"v": volume({ZONE: ["eastus-2"]})})
    found = observe(pods=(with_volume("p", affinity=affinity),), storage=there)
    (machine,) = solve(found.snapshot).machines
    assert machine.requirements[ZONE].values == {"eastus-2"}

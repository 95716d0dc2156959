"""Mapping between NodeClaims and agent pools: names, fields, ownership marks, invalid claims."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from cloudprovider.azure.agentpool import POOL_NAME, from_agent_pool, pool_name, to_agent_pool
from cloudprovider.azure.instance_types import is_gpu_size, lookup
from cloudprovider.azure.offerings import offerings
from cloudprovider.errors import Rejected
from cloudprovider.interface import SPOT, InstanceState, Offering
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.requirements import Requirement
from tests.unit.builders import BORN, SIZE, UID, claim

NOW = datetime(2026, 3, 1, 12, 5, 0, tzinfo=UTC)


def pool_for(claim: NodeClaim) -> dict:
    """The properties of the pool for the first offering of the claim."""
    return to_agent_pool(claim, offerings(claim)[0], now=NOW)["properties"]


def sent(**fields: Any) -> dict:
    return pool_for(claim(**fields))


def with_spec(**spec: Any) -> NodeClaim:
    made = claim()
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, **spec))


def requiring(*extra: Requirement) -> NodeClaim:
    return with_spec(requirements=(*claim().spec.requirements, *extra))


def test_k2_one_put_has_all_fields_that_kaito_requests() -> None:
    """K2: count 1, size, disk, image, taint, and all labels of the claim."""
    body = sent(annotations={labels.KAITO_IMAGE_FAMILY: "azurelinux"})
    assert (body["count"], body["vmSize"], body["osDiskSizeGB"], body["osSKU"]) == (1, SIZE, 1024, "AzureLinux")
    assert body["nodeTaints"] == ["sku=gpu:NoSchedule"]
    assert body["mode"] == "User"
    assert claim().metadata.labels.items() <= body["nodeLabels"].items()
    assert body["nodeLabels"][labels.KAITO_MACHINE_TYPE] == "gpu"
    assert body["nodeLabels"][labels.KAITO_CREATION_TIMESTAMP] == "2026-03-01T12-00-00Z"


def test_both_ownership_marks_override_the_claim() -> None:
    """Tags and a node label have the UID of the claim, whatever the claim's labels are."""
    body = sent(more_labels={labels.CLAIM_UID: "somebody-else"})
    assert body["nodeLabels"][labels.CLAIM_UID] == UID
    assert body["tags"][labels.TAG_CLAIM_UID] == UID
    assert body["tags"][labels.TAG_PUT_TIME] == "2026-03-01T12:05:00Z"


def test_the_ownership_marks_are_read_back() -> None:
    """An Instance from the body of a PUT has the ownership marks of the claim."""
    body = {"name": "ws3f2a91c0d", "properties": {**sent(), "provisioningState": "Creating", "eTag": "e"}}
    seen = from_agent_pool(body)
    assert (seen.claim_uid, seen.label_uid, seen.put_time, seen.state) == (UID, UID, NOW, InstanceState.CREATING)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ws3f2a91c0d", "ws3f2a91c0d"),
        ("a", "a"),
        ("abcdefghijkl", "abcdefghijkl"),
        ("abcdefghijklm", None),
        ("ws-1", None),
    ],
)
def test_pool_names(name: str, expected: str | None) -> None:
    """The name of the claim if it is a valid pool name, else a valid short name from the UID."""
    made = pool_name(claim(name=name))
    assert POOL_NAME.fullmatch(made)
    assert made == (expected or pool_name(claim(name="another-long-name")))
    assert expected or made != pool_name(claim(name=name, uid="uid-2"))


REFUSED = [
    ("no instance type", with_spec(requirements=()), "InstanceTypeMissing", "spec.requirements"),
    (
        "a size of another cloud",
        with_spec(requirements=(Requirement(key=labels.INSTANCE_TYPE, operator="In", values=("p4d.24xlarge",)),)),
        "InstanceTypeInvalid",
        "p4d.24xlarge",
    ),
    (
        "sizes that exclude each other",
        requiring(Requirement(key=labels.INSTANCE_TYPE, operator="In", values=("Standard_D4s_v5",))),
        "RequirementsInvalid",
        labels.INSTANCE_TYPE,
    ),
    ("a disk of nothing", claim(requests={"storage": "0"}), "DiskSizeInvalid", "storage"),
    ("a disk below the image", claim(requests={"storage": "10Gi"}), "DiskSizeInvalid", "10Gi"),
    ("an absurd disk", claim(requests={"storage": "5Ti"}), "DiskSizeInvalid", "5Ti"),
    ("a quantity that is none", claim(requests={"storage": "much"}), "ResourceQuantityInvalid", "much"),
    ("half a GPU", claim(requests={"storage": "64Gi", "nvidia.com/gpu": "1500m"}), "ResourceQuantityInvalid", "1500m"),
    (
        "a label AKS keeps",
        claim(more_labels={"kubernetes.azure.com/mode": "x"}),
        "LabelRefused",
        "kubernetes.azure.com/mode",
    ),
    ("a reserved label", claim(more_labels={"agentpool": "x"}), "LabelRefused", "agentpool"),
    (
        "a foreign kubernetes.io label",
        claim(more_labels={"app.kubernetes.io/name": "x"}),
        "LabelRefused",
        "app.kubernetes",
    ),
    (
        "a taint AKS keeps",
        with_spec(taints=(Taint(key="kubernetes.azure.com/x", effect="NoSchedule"),)),
        "TaintInvalid",
        "[0]",
    ),
    (
        "a taint without a fitting effect",
        with_spec(taints=(Taint(key="a", effect="Maybe"),)),
        "TaintInvalid",
        "a:Maybe",
    ),
    (
        "a zone that is none",
        requiring(Requirement(key=labels.ZONE, operator="In", values=("mars",))),
        "ZoneInvalid",
        "mars",
    ),
    (
        "reserved capacity only",
        requiring(Requirement(key=labels.CAPACITY_TYPE, operator="In", values=("reserved",))),
        "CapacityTypeInvalid",
        "neither on-demand nor spot",
    ),
    (
        "windows",
        requiring(Requirement(key=labels.OS, operator="In", values=("windows",))),
        "OperatingSystemInvalid",
        "linux",
    ),
    (
        "one size here and another there",
        requiring(Requirement(key="karpenter.azure.com/sku-name", operator="In", values=("Standard_D4s_v5",))),
        "InstanceTypeInvalid",
        "sku-name",
    ),
    (
        "an AMD machine with an image that has no driver for it",
        msgspec.structs.replace(
            with_spec(
                requirements=(
                    Requirement(key=labels.INSTANCE_TYPE, operator="In", values=("Standard_ND96isr_MI300X_v5",)),
                )
            ),
            metadata=claim(annotations={labels.KAITO_IMAGE_FAMILY: "azurelinux"}).metadata,
        ),
        "ImageFamilyInvalid",
        "Ubuntu",
    ),
]


@pytest.mark.parametrize(("reported", "requested", "reason", "names"), REFUSED, ids=[row[0] for row in REFUSED])
def test_invalid_claims_are_rejected(reported: str, requested: NodeClaim, reason: str, names: str) -> None:
    """Each rejection is final, names field and value, and fits into a condition."""
    with pytest.raises(Rejected) as refused:
        pool_for(requested)
    assert refused.value.final
    assert refused.value.reason == reason
    assert names in refused.value.message, reported
    assert len(refused.value.message.encode()) <= 256


def test_privileged_and_cloud_labels_are_left_out() -> None:
    """Labels that grant privileges to a Node and labels that Azure sets are not part of the pool."""
    extra = {
        "node-role.kubernetes.io/control-plane": "",
        "node-restriction.kubernetes.io/x": "y",
        labels.INSTANCE_TYPE: SIZE,
        labels.ZONE: "westeurope-1",
        "mine.example/x": "kept",
    }
    wanted = sent(more_labels=extra)["nodeLabels"]
    assert wanted["mine.example/x"] == "kept"
    assert not wanted.keys() & (extra.keys() - {"mine.example/x"})


@pytest.mark.parametrize(
    ("storage", "gib"),
    [("1024Gi", 1024), ("64G", 60), ("30Gi", 30), ("500Mi", 0), ("1.5Ti", 1536), (str(64 * 2**30), 64)],
)
def test_disk_sizes(storage: str, gib: int) -> None:
    """Whole GiB, rounded up; AKS chooses below 1 GiB."""
    assert sent(requests={"storage": storage})["osDiskSizeGB"] == gib


def test_no_storage_request_lets_aks_choose() -> None:
    """A claim without a storage request gets the default of the size."""
    assert sent(requests={"cpu": "1"})["osDiskSizeGB"] == 0


def test_spot_and_a_zone() -> None:
    """The capacity type and the zone of the offering; without a zone Azure chooses."""
    requested = to_agent_pool(claim(), Offering(size=SIZE, zone="2", capacity_type=SPOT), now=NOW)["properties"]
    assert (requested["scaleSetPriority"], requested["spotMaxPrice"]) == ("Spot", -1.0)
    assert requested["availabilityZones"] == ["2"]
    plain = to_agent_pool(claim(), Offering(size=SIZE), now=NOW)["properties"]
    assert not {"scaleSetPriority", "spotMaxPrice", "availabilityZones"} & set(plain)


@pytest.mark.parametrize(
    "properties",
    [
        [],
        "text",
        {"tags": ["a"]},
        {"nodeLabels": "b"},
        {"count": "three"},
        {"availabilityZones": "1"},
        {"powerState": "Running"},
        {"provisioningState": "Failed", "status": {"provisioningError": ["text"]}},
    ],
)
def test_an_unreadable_pool_raises(properties: object) -> None:
    """A pool with unreadable ownership marks must not look unowned."""
    with pytest.raises(ValueError, match=r"expected|invalid literal"):
        from_agent_pool({"name": "odd", "properties": properties})


def test_null_members_count_as_absent() -> None:
    """ARM returns null for unset members."""
    absent = dict.fromkeys(("tags", "nodeLabels", "count", "availabilityZones", "powerState", "status"))
    seen = from_agent_pool({"name": "p", "properties": {"provisioningState": "Failed", **absent}})
    assert (seen.claim_uid, seen.zones, seen.count, seen.power_state) == ("", (), 0, "Running")


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        ("succeeded", "running"),
        ("UPDATING", "running"),
        ("Creating", "creating"),
        ("Succeeded", "running"),
        ("Upgrading", "running"),
        ("Deleting", "deleting"),
        ("Failed", "failed"),
        ("Canceled", "failed"),
        ("SomethingNew", "creating"),
        ("", "creating"),
    ],
)
def test_states(raw: str, state: str) -> None:
    """Each provisioning state maps to one of four; an unknown one maps to creating."""
    seen = from_agent_pool({"name": "p", "properties": {"provisioningState": raw}})
    assert seen.state == state
    assert seen.busy == (raw.lower() in ("upgrading", "updating"))


def test_a_failed_pool_keeps_its_reason() -> None:
    """The provisioning error is the failure, also after a restart."""
    error = {"code": "AllocationFailed", "message": "no room"}
    body = {"name": "p", "properties": {"provisioningState": "Failed", "status": {"provisioningError": error}}}
    failure = from_agent_pool(body).failure
    assert failure is not None
    assert failure.code == "AllocationFailed"
    assert failure.kind == "no_capacity"


def test_sizes_are_found_in_any_casing() -> None:
    """AKS returns the case of the request."""
    sku = lookup("standard_nd96isr_h100_V5")
    assert sku is not None
    assert (sku.gpus, sku.resource) == (8, "nvidia.com/gpu")
    assert lookup("Standard_D4s_v5") is None
    assert is_gpu_size("Standard_NC4as_T4_v3")
    assert not is_gpu_size("Standard_D4s_v5")


def test_the_spot_taint_is_not_sent() -> None:
    """A claim may list it, because its Node will have it; other keys of the domain and its subdomains are rejected."""
    own = Taint(key="sku", value="gpu", effect="NoSchedule")
    spot = Taint(key=labels.AKS_SPOT, value="spot", effect="NoSchedule")
    made = with_spec(taints=(own, spot))
    assert to_agent_pool(made, Offering(size=SIZE), now=BORN)["properties"]["nodeTaints"] == ["sku=gpu:NoSchedule"]
    with pytest.raises(Rejected, match="AKS reserves this key"):
        to_agent_pool(
            with_spec(taints=(Taint(key="a.kubernetes.azure.com/x", effect="NoSchedule"),)),
            Offering(size=SIZE),
            now=BORN,
        )


def test_tags_stay_within_azures_bounds() -> None:
    """At most 50 tags, names of 512 and values of 256 characters, for any claim name."""
    made = claim(name="a" * 253, uid="u" * 36)
    tags = to_agent_pool(made, Offering(size=SIZE), now=BORN)["properties"]["tags"]
    assert len(tags) <= 50
    assert all(len(name) <= 512 and len(value) <= 256 for name, value in tags.items())

"""Mapping from the requirements of a claim to its offerings, in order."""

import msgspec
import pytest

from cloudprovider.azure.offerings import SKU_NAME, allowed_offerings, offerings, validate
from cloudprovider.errors import Rejected
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.requirements import Requirement
from tests.unit.builders import SIZE, claim


def of_type(*more: Requirement, sizes: tuple[str, ...] = (SIZE,)) -> NodeClaim:
    made = claim()
    requirements = (Requirement(key=labels.INSTANCE_TYPE, operator="In", values=sizes), *more)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, requirements=requirements))


def reported(requested: NodeClaim) -> list[str]:
    return [str(offering) for offering in offerings(requested)]


def capacity(operator: str, *values: str) -> Requirement:
    return Requirement(key=labels.CAPACITY_TYPE, operator=operator, values=values)


def test_a_plain_claim_has_one_offering() -> None:
    """One size, no zone, on-demand."""
    assert reported(of_type()) == [SIZE]


def test_the_order_is_size_capacity_type_zone() -> None:
    """In the order of the claim; a zone may have the location as a prefix."""
    requested = of_type(
        capacity("In", "spot", "on-demand"),
        Requirement(key=labels.ZONE, operator="In", values=("westeurope-2", "1", "westeurope-2")),
        sizes=("Standard_B", "Standard_A"),
    )
    assert reported(requested) == [
        "Standard_B in zone 2 (spot)",
        "Standard_B in zone 1 (spot)",
        "Standard_B in zone 2",
        "Standard_B in zone 1",
        "Standard_A in zone 2 (spot)",
        "Standard_A in zone 1 (spot)",
        "Standard_A in zone 2",
        "Standard_A in zone 1",
    ]


@pytest.mark.parametrize(
    ("requirement", "kinds"),
    [
        (capacity("In", "spot", "on-demand"), ["spot", "on-demand"]),
        (capacity("In", "on-demand", "spot"), ["on-demand", "spot"]),
        (capacity("In", "spot"), ["spot"]),
        (capacity("In", "reserved", "on-demand"), ["on-demand"]),
        (capacity("NotIn", "spot"), ["on-demand"]),
        (capacity("NotIn", "on-demand"), ["spot"]),
        (capacity("Exists"), ["on-demand"]),
    ],
    ids=str,
)
def test_spot_is_used_if_listed_or_the_only_choice(requirement: Requirement, kinds: list[str]) -> None:
    """With both listed their order applies; with neither the capacity type is on-demand."""
    assert [offering.capacity_type for offering in offerings(of_type(requirement))] == kinds


GB300 = "Standard_ND128isr_GB300_v6"


def architecture(*values: str, operator: str = "In") -> Requirement:
    return Requirement(key="beta.kubernetes.io/arch", operator=operator, values=values)


def test_sizes_of_another_architecture_are_left_out() -> None:
    """Grace-Blackwell machines and sizes with the letter p are arm64."""
    sizes = (SIZE, GB300, "Standard_D4ps_v5")
    assert reported(of_type(architecture("arm64"), sizes=sizes)) == [GB300, "Standard_D4ps_v5"]
    assert reported(of_type(architecture("arm64", operator="NotIn"), sizes=sizes)) == [SIZE]
    assert len(reported(of_type(architecture("arm64", "amd64"), sizes=sizes))) == 3


def test_zones_of_another_location_are_left_out() -> None:
    """The cluster is in one location; a zone without a location is one of it."""
    requested = of_type(Requirement(key=labels.ZONE, operator="In", values=("eastus-1", "westeurope-2", "3")))
    assert [one.zone for one in offerings(requested, "westeurope")] == ["2", "3"]
    assert [one.zone for one in offerings(requested)] == ["1", "2", "3"]


REGIONS = Requirement(key=labels.REGION, operator="In", values=("eastus",))


@pytest.mark.parametrize(
    ("requirement", "field", "remedy"),
    [
        (architecture("arm64"), "kubernetes.io/arch", "allow amd64"),
        (architecture("amd64", operator="NotIn"), "kubernetes.io/arch", "allow amd64"),
        (REGIONS, "topology.kubernetes.io/region", "allow westeurope, or remove the requirement"),
        (
            Requirement(key="failure-domain.beta.kubernetes.io/region", operator="NotIn", values=("westeurope",)),
            "topology.kubernetes.io/region",
            "allow westeurope, or remove the requirement",
        ),
        (
            Requirement(key=labels.ZONE, operator="In", values=("eastus-1",)),
            "topology.kubernetes.io/zone",
            "use westeurope-1, -2 or -3",
        ),
    ],
)
def test_requirements_that_no_machine_meets_are_rejected(requirement: Requirement, field: str, remedy: str) -> None:
    """With field, value and remedy; what depends on the location is accepted where that is not known."""
    requested = of_type(requirement)
    (error,) = validate(requested, "westeurope")
    assert error.field == f"spec.requirements[{field}]"
    assert error.remedy == remedy
    if requirement.operator == "In":
        assert error.value == ", ".join(requirement.values)
    assert allowed_offerings(requested, "westeurope") == ()
    assert list(validate(requested)) == ([error] if "arch" in field else [])


def test_only_sizes_that_both_keys_allow() -> None:
    """KAITO sets the size under two keys; the order is that of the instance types."""
    requested = of_type(
        Requirement(key=SKU_NAME, operator="In", values=(SIZE, "Standard_D8s_v5")),
        sizes=("Standard_D4s_v5", "Standard_D8s_v5", SIZE),
    )
    assert reported(requested) == ["Standard_D8s_v5", SIZE]


@pytest.mark.parametrize(
    ("requested", "reason", "words"),
    [
        (of_type(sizes=(SIZE, "A100")), "InstanceTypeInvalid", "'A100' is not an Azure VM size"),
        (
            of_type(Requirement(key=SKU_NAME, operator="In", values=("Standard_X",))),
            "InstanceTypeInvalid",
            f"none of {SIZE} is",
        ),
        (
            of_type(Requirement(key=labels.ZONE, operator="In", values=("1", "west"))),
            "ZoneInvalid",
            "'west' is not a zone",
        ),
        (of_type(capacity("In", "reserved")), "CapacityTypeInvalid", "neither on-demand nor spot"),
        (
            of_type(Requirement(key=labels.OS, operator="In", values=("windows",))),
            "OperatingSystemInvalid",
            "linux is excluded",
        ),
        (
            of_type(Requirement(key=labels.INSTANCE_TYPE, operator="In", values=("Standard_B",))),
            "RequirementsInvalid",
            "conflicting requirements",
        ),
    ],
    ids=["one of several sizes", "two keys", "zone", "terms", "system", "contradiction"],
)
def test_invalid_requirements_are_rejected(requested: NodeClaim, reason: str, words: str) -> None:
    """Field, value and remedy; one invalid value among valid ones is an error too."""
    with pytest.raises(Rejected) as refused:
        offerings(requested)
    assert refused.value.final
    assert refused.value.reason == reason
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("requested", "words"),
    [
        (of_type(sizes=tuple(f"Standard_N{number}" for number in range(501))), "501 combinations"),
        (of_type(capacity("In", "spot", "on-demand"), sizes=tuple(f"Standard_N{n}" for n in range(300))), "600 comb"),
        (of_type(sizes=("m5.large",) * 60_000), "60000 values, at most 5000 are evaluated; list fewer values"),
    ],
)
def test_more_than_can_be_tried_is_rejected(requested: NodeClaim, words: str) -> None:
    """A CRD without bounds on lists accepts them; the claim reports the bound."""
    with pytest.raises(Rejected, match=words) as rejected:
        offerings(requested)
    assert (rejected.value.reason, rejected.value.final) == ("RequirementsInvalid", True)

"""Validation of NodeClaims: all errors are returned together, each with its field, value and remedy."""

from collections.abc import Iterable

import msgspec
import pytest

from cloudprovider.azure import agentpool, offerings
from cloudprovider.errors import Rejected, reject
from provisioner.api import labels
from provisioner.api.field_error import FieldError
from provisioner.api.meta import Taint
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.requirements import Requirement
from tests.unit.builders import claim

AMD = "Standard_ND96isr_MI300X_v5"


def requiring(*wanted: tuple[str, str, tuple[str, ...]]) -> NodeClaim:
    made = claim()
    requirements = tuple(Requirement(key=key, operator=operator, values=values) for key, operator, values in wanted)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, requirements=requirements))


def triples(errors: Iterable[FieldError]) -> list[tuple[str, str, str]]:
    return [(error.reason, error.field, error.value) for error in errors]


def test_fields_that_an_agent_pool_cannot_express() -> None:
    """Image family, requests, labels and taints, in the order of the checks; `reject` raises the first error."""
    made = claim(
        annotations={labels.KAITO_IMAGE_FAMILY: "AzureLinux"},
        requests={"storage": "5Ti", "nvidia.com/gpu": "1500m", "cpu": "much"},
        more_labels={"agentpool": "mine", "example.com/team": "a b", "-x/y_": "fine"},
    )
    taints = (Taint(key="kubernetes.azure.com/x", effect="NoSchedule"), Taint(key="ok", effect="Sometimes"))
    made = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, taints=taints))
    found = list(agentpool.validate(made, AMD))
    assert triples(found) == [
        ("ImageFamilyInvalid", f"metadata.annotations[{labels.KAITO_IMAGE_FAMILY}]", "AzureLinux"),
        ("DiskSizeInvalid", "spec.resources.requests.storage", "5Ti"),
        ("ResourceQuantityInvalid", "spec.resources.requests[nvidia.com/gpu]", "1500m"),
        ("ResourceQuantityInvalid", "spec.resources.requests[cpu]", "much"),
        ("LabelRefused", "metadata.labels[agentpool]", "mine"),
        ("LabelRefused", "metadata.labels[example.com/team]", "a b"),
        ("LabelRefused", "metadata.labels[-x/y_]", "fine"),
        ("TaintInvalid", "spec.taints[0]", "kubernetes.azure.com/x:NoSchedule"),
        ("TaintInvalid", "spec.taints[1]", "ok:Sometimes"),
    ]
    assert all(error.message and error.remedy for error in found)
    with pytest.raises(Rejected) as raised:
        reject(found)
    assert (raised.value.reason, raised.value.final) == ("ImageFamilyInvalid", True)
    assert raised.value.message == str(found[0])


REQUIREMENTS = [
    (
        "an error for each requirement",
        requiring(
            (labels.INSTANCE_TYPE, "In", ("p4d.24xlarge", "Standard_D4s_v5", "t2.micro")),
            (labels.OS, "In", ("windows",)),
            (labels.ZONE, "In", ("everywhere", "westeurope-2", "nowhere")),
            (labels.CAPACITY_TYPE, "In", ("reserved",)),
        ),
        [
            ("OperatingSystemInvalid", f"spec.requirements[{labels.OS}]", ""),
            ("InstanceTypeInvalid", f"spec.requirements[{labels.INSTANCE_TYPE}]", "p4d.24xlarge"),
            ("InstanceTypeInvalid", f"spec.requirements[{labels.INSTANCE_TYPE}]", "t2.micro"),
            ("ZoneInvalid", f"spec.requirements[{labels.ZONE}]", "everywhere"),
            ("ZoneInvalid", f"spec.requirements[{labels.ZONE}]", "nowhere"),
            ("CapacityTypeInvalid", f"spec.requirements[{labels.CAPACITY_TYPE}]", "reserved"),
        ],
    ),
    (
        "conflicting requirements are reported once",
        requiring(
            (labels.INSTANCE_TYPE, "In", ("Standard_D4s_v5",)),
            (labels.INSTANCE_TYPE, "NotIn", ("Standard_D4s_v5",)),
            (labels.CAPACITY_TYPE, "In", ("spot",)),
            (labels.CAPACITY_TYPE, "DoesNotExist", ()),
        ),
        [("RequirementsInvalid", "spec.requirements", "")] * 2,
    ),
    (
        "malformed requirements are reported alone",
        requiring((labels.OS, "In", ()), ("example.com/n", "Gt", ("many",)), (labels.ZONE, "In", ("nowhere",))),
        [("RequirementsInvalid", "spec.requirements", "")] * 2,
    ),
    ("no instance type", requiring((labels.OS, "Exists", ())), [("InstanceTypeMissing", "spec.requirements", "")]),
    (
        "an excluded instance type",
        requiring((labels.INSTANCE_TYPE, "DoesNotExist", ())),
        [("InstanceTypeMissing", "spec.requirements", "")],
    ),
    (
        "different sizes in the two requirements",
        requiring(
            (labels.INSTANCE_TYPE, "In", ("Standard_A", "Standard_B")), (offerings.SKU_NAME, "In", ("Standard_C",))
        ),
        [("InstanceTypeInvalid", f"spec.requirements[{offerings.SKU_NAME}]", "Standard_A, Standard_B")],
    ),
]


@pytest.mark.parametrize(("_case", "made", "expected"), REQUIREMENTS, ids=[row[0] for row in REQUIREMENTS])
def test_requirements(_case: str, made: NodeClaim, expected: list[tuple[str, str, str]]) -> None:
    """Each invalid requirement has one error."""
    assert triples(offerings.validate(made)) == expected
    with pytest.raises(Rejected):
        offerings.offerings(made)


def test_a_claim_of_kaito_is_valid() -> None:
    """Its requirements and its other fields."""
    assert [*offerings.validate(claim()), *agentpool.validate(claim(), "Standard_NC24ads_A100_v4")] == []
    reject(())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FieldError("spec.x", "X", "must be at least 2", "1", "use 2"), "spec.x: must be at least 2; use 2"),
        (FieldError("spec.x", "X", "must be at least 2"), "spec.x: must be at least 2"),
        (FieldError("", "X", "cannot be read", remedy="write YAML"), "cannot be read; write YAML"),
    ],
    ids=["all members", "without a remedy", "without a field"],
)
def test_text_of_a_field_error(error: FieldError, text: str) -> None:
    """Field, message and remedy on one line."""
    assert str(error) == text

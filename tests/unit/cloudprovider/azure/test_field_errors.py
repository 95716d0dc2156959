"""What is wrong with a claim, all at once: each objection with field, value and remedy."""

import msgspec
import pytest

from cloudprovider.azure import agentpool, offerings
from cloudprovider.azure.field_error import Objection, refuse
from cloudprovider.errors import Rejected
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.nodeclaim import NodeClaim, Requirement
from tests.unit.builders import claim

AMD = "Standard_ND96isr_MI300X_v5"


def requiring(*wanted: tuple[str, str, tuple[str, ...]]) -> NodeClaim:
    made = claim()
    requirements = tuple(Requirement(key=key, operator=operator, values=values) for key, operator, values in wanted)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, requirements=requirements))


def told(objections: object) -> list[tuple[str, str, str]]:
    return [(o.reason, o.field, o.value) for o in objections]  # type: ignore[attr-defined]


def test_all_that_a_pool_cannot_express() -> None:
    """Image, requests, labels and taints, in the order of the checks; the provider raises the first of them."""
    made = claim(
        annotations={labels.KAITO_IMAGE_FAMILY: "AzureLinux"},
        requests={"storage": "5Ti", "nvidia.com/gpu": "1500m", "cpu": "much"},
        more_labels={"agentpool": "mine", "example.com/team": "a b", "-x/y_": "fine"},
    )
    taints = (Taint(key="kubernetes.azure.com/x", effect="NoSchedule"), Taint(key="ok", effect="Sometimes"))
    made = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, taints=taints))
    found = list(agentpool.objections(made, AMD))
    assert told(found) == [
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
    assert all(o.problem and o.remedy for o in found)
    with pytest.raises(Rejected) as raised:
        refuse(found)
    assert (raised.value.reason, raised.value.final) == ("ImageFamilyInvalid", True)
    assert raised.value.message == str(found[0])


REQUIREMENTS = [
    (
        "each of them has its own flaw",
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
        "what contradicts itself is told once",
        requiring(
            (labels.INSTANCE_TYPE, "In", ("Standard_D4s_v5",)),
            (labels.INSTANCE_TYPE, "NotIn", ("Standard_D4s_v5",)),
            (labels.CAPACITY_TYPE, "In", ("spot",)),
            (labels.CAPACITY_TYPE, "DoesNotExist", ()),
        ),
        [("RequirementsInvalid", "spec.requirements", "")] * 2,
    ),
    (
        "what is malformed hides what it says",
        requiring((labels.OS, "In", ()), ("example.com/n", "Gt", ("many",)), (labels.ZONE, "In", ("nowhere",))),
        [("RequirementsInvalid", "spec.requirements", "")] * 2,
    ),
    ("no size", requiring((labels.OS, "Exists", ())), [("InstanceTypeMissing", "spec.requirements", "")]),
    (
        "a size that must not be",
        requiring((labels.INSTANCE_TYPE, "DoesNotExist", ())),
        [("InstanceTypeMissing", "spec.requirements", "")],
    ),
    (
        "two names, two sizes",
        requiring(
            (labels.INSTANCE_TYPE, "In", ("Standard_A", "Standard_B")), (offerings.SKU_NAME, "In", ("Standard_C",))
        ),
        [("InstanceTypeInvalid", f"spec.requirements[{offerings.SKU_NAME}]", "Standard_A, Standard_B")],
    ),
]


@pytest.mark.parametrize(("_case", "made", "expected"), REQUIREMENTS, ids=[row[0] for row in REQUIREMENTS])
def test_requirements(_case: str, made: NodeClaim, expected: list[tuple[str, str, str]]) -> None:
    """Every flaw has its line; what can be expressed has none."""
    assert told(offerings.objections(made)) == expected
    with pytest.raises(Rejected):
        offerings.offerings(made)


def test_a_claim_as_kaito_writes_it_has_none() -> None:
    """Neither its requirements nor the rest."""
    assert [*offerings.objections(claim()), *agentpool.objections(claim(), "Standard_NC24ads_A100_v4")] == []
    refuse(())


def test_an_objection_reads_as_field_problem_remedy() -> None:
    """One line: field and value first, the remedy last."""
    objection = Objection(reason="X", field="spec.x", value="1", problem="spec.x: 1 is too few", remedy="take 2")
    assert str(objection) == "spec.x: 1 is too few; take 2"

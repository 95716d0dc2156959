"""What a readiness rule lacks, as a table: each source, and each way in which it is not ready."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controllers.model.readiness import AppliedRule, record_of, recorded_taints
from controllers.nodeclaim.lifecycle.readiness_sources import missing
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta, Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.readiness import ReadinessRule
from provisioner.vendors import nvidia
from tests.unit.builders import facts
from tests.unit.controllers.nodeclaim.lifecycle.devices import LOST, XID, device, of_dra, published, some

Json = dict[str, Any]
CREATED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NODE = msgspec.convert(
    {
        "metadata": {"name": "n", "creationTimestamp": "2026-03-01T12:00:00Z"},
        "status": {
            "allocatable": {"a/b": "1", "a/odd": "x"},
            "conditions": [{"type": "Good", "status": "True"}, {"type": "Bad", "status": "False", "reason": "Why"}],
        },
    },
    Node,
)
OBJECT = {"group": "g.io", "version": "v1", "resource": "things", "namespace": "ns", "jsonPath": "{.status.x[*]}"}
META = {"name": "n", "creationTimestamp": "2026-03-01T12:00:00Z"}


def applied(until: Json, *objects: Json, problem: str = "") -> AppliedRule:
    rule = msgspec.convert({"taint": {"key": "k", "effect": "NoSchedule"}, "until": until}, ReadinessRule)
    return AppliedRule(rule=rule, source="readiness[0]", objects=objects, problem=problem)


def thing(*values: str, **meta: Any) -> Json:
    return {"metadata": META | meta, "status": {"x": list(values)}}


POD = {"namespace": "ns", "labelSelector": "a=b"}
READY = {"metadata": {"name": "p"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
CASES = [
    (applied({"condition": {"type": "Good"}}), ""),
    (applied({"condition": {"type": "Bad", "status": "False"}}), ""),
    (applied({"condition": {"type": "Bad"}}), "condition Bad of the Node is False (Why), not True"),
    (applied({"condition": {"type": "Other"}}), "the Node has no condition Other"),
    (applied({"resource": {"name": "a/b"}}), ""),
    (applied({"resource": {"name": "a/b", "count": 2}}), "a/b: 1 of 2 allocatable"),
    (applied({"resource": {"name": "a/odd"}}), "a/odd: 0 of 1 allocatable"),
    (applied({"resource": {"name": "a/none"}}), "a/none: 0 of 1 allocatable"),
    (applied({"devices": {"driver": "d.example"}}), "DRA driver d.example: 0 of 1 usable devices published"),
    (applied({"pod": POD}), "no pod a=b of namespace ns is on the Node"),
    (applied({"pod": POD}, READY), ""),
    (applied({"pod": POD}, {"metadata": {"name": "p"}}), "pod ns/p is not Ready"),
    (applied({"pod": POD}, READY | {"metadata": {"name": "p", "deletionTimestamp": "x"}}), "pod ns/p is not Ready"),
    (applied({"object": OBJECT}, problem="no right to list things.g.io"), "no right to list things.g.io"),
    (applied({"object": OBJECT}), "things.g.io ns/n does not exist"),
    (applied({"object": OBJECT}, thing()), "{.status.x[*]} matches nothing in things.g.io ns/n"),
    (applied({"object": OBJECT}, thing("a")), ""),
    (applied({"object": OBJECT | {"equals": "a"}}, thing("a", "a")), ""),
    (applied({"object": OBJECT | {"equals": "a"}}, thing("a", "b")), "things.g.io ns/n shows b, not a"),
    (applied({"object": OBJECT | {"oneOf": ["a", "b"]}}, thing("a", "b")), ""),
    (applied({"object": OBJECT | {"oneOf": ["a", "b"]}}, thing("c", "c")), "things.g.io ns/n shows c, not a or b"),
    (applied({"object": OBJECT}, thing("a", deletionTimestamp="x")), "things.g.io ns/n is being deleted"),
    (applied({"object": OBJECT}, thing("a", creationTimestamp="2026-03-01T11:59:59Z")), "is older than the Node"),
    (applied({"object": OBJECT | {"name": "m"}}, thing("a", creationTimestamp="2026-01-01T00:00:00Z")), ""),
    (applied({"object": OBJECT | {"jsonPath": "["}}, thing("a")), "jsonPath [: "),
]


@pytest.mark.parametrize(("rule", "words"), CASES)
def test_a_rule_says_what_it_lacks(rule: AppliedRule, words: str) -> None:
    found = missing(facts(slices=()), rule, NODE)
    assert words in found
    assert bool(found) is bool(words)


GPU_DRIVER = nvidia.VENDOR.driver
ON = NODE.name
DEVICES = [
    (GPU_DRIVER, 8, (published(*some(8), on=ON),), ""),
    (
        GPU_DRIVER,
        8,
        (published(*some(7), device("gpu-7", "gpu", XID), on=ON),),
        "7 of 8 usable devices published",
    ),
    (GPU_DRIVER, 1, (published(*some(8), on=ON, of=2),), "0 of 1 usable devices published"),
    (GPU_DRIVER, 1, (published(*some(8, "mig"), on=ON),), "0 of 1 usable devices published"),
    (GPU_DRIVER, 1, (published(*some(8), on="other"),), "0 of 1 usable devices published"),
    (GPU_DRIVER, 1, None, "devices of gpu.nvidia.com are not known: ResourceSlices: 403"),
    ("dra.net", 2, (published(*some(2, None), on=ON, driver="dra.net"),), ""),
    ("dra.net", 2, (published(device("a"), device("b", None, LOST), on=ON, driver="dra.net"),), "1 of 2"),
]


@pytest.mark.parametrize(("driver", "count", "slices", "words"), DEVICES)
def test_a_rule_for_devices(driver: str, count: int, slices: Any, words: str) -> None:
    """Usable ones in complete pools of the Node."""
    rule = applied({"devices": {"driver": driver, "count": count}})
    found = missing(facts(slices=slices, slices_error="403"), rule, NODE)
    assert words in found
    assert bool(found) is bool(words)


def test_a_rule_of_the_settings_for_a_device_plugin() -> None:
    """On a machine of a DRA driver it is never satisfied, and states what to use."""
    found = missing(of_dra(published(*some(8))), applied({"resource": {"name": "nvidia.com/gpu"}}), NODE)
    assert "DRA driver gpu.nvidia.com publishes the GPUs of this Node; use until.devices" in found


def test_the_taints_on_the_claim_are_read_as_they_were_written() -> None:
    """The text of a claim that somebody changed is never an error."""
    taints = (Taint(key="a", effect="NoSchedule"), Taint(key="b.io/c", value="d", effect="NoExecute"))
    claim = NodeClaim(metadata=ObjectMeta(annotations={labels.READINESS_TAINTS: record_of(taints)}))
    assert recorded_taints(claim) == taints
    for odd in ("", ",", "a", "a,,b"):
        assert recorded_taints(NodeClaim(metadata=ObjectMeta(annotations={labels.READINESS_TAINTS: odd}))) == ()

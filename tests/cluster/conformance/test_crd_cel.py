"""CEL rules of a CRD: their messages, their paths, when they are evaluated, and ratcheting."""

import asyncio
import json
import re

import pytest

from provisioner.api.crd import all_crds

from .conftest import is_served
from .server import JSON_PATCH, MERGE, Json, Server
from .things import CLAIMS, CRDS, WIDGETS, at, claim, claim_body, widget, widget_body

pytestmark = pytest.mark.asyncio


async def causes(server: Server, collection: str, body: Json) -> list[tuple[str, str, str]]:
    """Field, reason and message of each cause for which a create is refused."""
    result = await server.refused(422, "Invalid", "POST", collection, body)
    return [(c["field"], c["reason"], rule_message(c["message"])) for c in result["details"]["causes"]]


def rule_message(message: str) -> str:
    """A rule's own message: before it 1.34 prints the value's type, and 1.36 the value if it is a plain one."""
    return re.sub(r'^Invalid value: ("[^"]*": )?', "", message)


async def test_a_broken_rule_has_its_message(server: Server) -> None:
    """The message of a broken rule is a cause at the path of the rule."""
    body = widget_body(server, spec={"size": 1, "parts": [{"key": "a", "values": []}]})
    found = await causes(server, WIDGETS, body)
    assert found == [("spec.parts", "FieldValueInvalid", "each part needs a value")]


async def test_a_rule_can_set_a_field_and_a_reason(server: Server) -> None:
    """A rule's fieldPath, reason and messageExpression are in its cause."""
    found = await causes(server, WIDGETS, widget_body(server, spec={"size": 1, "least": 2}))
    assert found == [("spec.least", "FieldValueInvalid", "least may not be above size")]
    body = widget_body(server, spec={"size": 1, "parts": [{"key": "a.test/x", "values": ["x"]}]})
    found = await causes(server, WIDGETS, body)
    assert found == [("spec.parts[0].key", "FieldValueForbidden", "Forbidden: not in a.test/x")]


async def test_all_broken_rules_are_reported(server: Server) -> None:
    """Two broken rules are two causes, and the message has both in brackets."""
    spec = {"size": 1, "least": 2, "parts": [{"key": "a.test/x", "values": ["x"]}]}
    result = await server.refused(422, "Invalid", "POST", WIDGETS, widget_body(server, spec=spec))
    assert {cause["field"] for cause in result["details"]["causes"]} == {"spec.least", "spec.parts[0].key"}
    assert " is invalid: [spec." in result["message"]


async def test_a_rule_that_cannot_be_evaluated_refuses(server: Server) -> None:
    """A rule that reads an absent field is an error with the rule's message."""
    body = widget_body(server, spec={"size": 1, "parts": [{"key": "a"}]})
    found = await causes(server, WIDGETS, body)
    result = "no such key: values evaluating rule: each part needs a value"
    assert found == [("spec.parts", "FieldValueInvalid", result)]


async def test_rules_are_evaluated_beside_bounds(server: Server) -> None:
    """A value out of bounds does not prevent the evaluation of rules."""
    found = await causes(server, WIDGETS, widget_body(server, spec={"size": 10, "least": 20}))
    assert [field for field, _, _ in found] == ["spec.size", "spec.least"]


async def test_a_transition_rule_compares_two_versions(server: Server) -> None:
    """A transition rule is not evaluated on create; on update it compares to the old value."""
    made = await widget(server, spec={"size": 3, "fixed": "a"})
    result = await server.refused(422, "Invalid", "PATCH", at(WIDGETS, made), {"spec": {"fixed": "b"}}, how=MERGE)
    (cause,) = result["details"]["causes"]
    assert (cause["field"], rule_message(cause["message"])) == ("spec", "fixed is immutable")
    patched = await server.patch(at(WIDGETS, made), {"spec": {"size": 4}})
    assert patched["spec"]["fixed"] == "a"


async def test_a_claims_spec_is_immutable(server: Server) -> None:
    """A change of a claim's spec is refused with 422, the field spec and our message."""
    made = await claim(server)
    body = {"spec": {"expireAfter": "1h"}}
    result = await server.refused(422, "Invalid", "PATCH", at(CLAIMS, made), body, how=MERGE)
    (cause,) = result["details"]["causes"]
    assert (cause["field"], rule_message(cause["message"])) == ("spec", "spec is immutable")
    name = made["metadata"]["name"]
    assert result["message"] == f'NodeClaim.karpenter.sh "{name}" is invalid: spec: {cause["message"]}'


HOSTNAME = "kubernetes.io/hostname"
IN_NEEDS_VALUES = "requirements with operator 'In' must have a value defined"
ONE_POSITIVE = "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value"
ENOUGH_VALUES = "requirements with 'minValues' must have at least that many values specified in the 'values' field"


@pytest.mark.parametrize(
    ("requirement", "place", "message"),
    [
        ({"key": "a", "operator": "In", "values": []}, "", IN_NEEDS_VALUES),
        ({"key": "a", "operator": "Gt", "values": ["-1"]}, "", ONE_POSITIVE),
        ({"key": "a", "operator": "Gt", "values": ["1", "2"]}, "", ONE_POSITIVE),
        ({"key": "a", "operator": "In", "values": ["x"], "minValues": 2}, "", ENOUGH_VALUES),
        ({"key": "karpenter.sh/x", "operator": "Exists"}, "[0].key", 'label domain "karpenter.sh" is restricted'),
        ({"key": HOSTNAME, "operator": "Exists"}, "[0].key", f'label "{HOSTNAME}" is restricted'),
    ],
)
async def test_the_rules_of_a_claims_requirements(server: Server, requirement: Json, place: str, message: str) -> None:
    """Our CRD has the rules of Karpenter's CRD with the same messages."""
    ((field, _, result),) = await causes(server, CLAIMS, claim_body(server, spec={"requirements": [requirement]}))
    assert (field, result) == (f"spec.requirements{place}", message)


async def test_a_value_that_is_no_number_breaks_its_rule(server: Server) -> None:
    """int() of a word is an error of the rule, not of the server."""
    requirement = {"key": "a", "operator": "Gt", "values": ["x"]}
    ((field, _, message),) = await causes(server, CLAIMS, claim_body(server, spec={"requirements": [requirement]}))
    assert field == "spec.requirements"
    assert "type conversion error from 'string' to 'int' evaluating rule: requirements operator 'Gt'" in message


async def test_an_empty_group_is_refused_on_create(server: Server) -> None:
    """A new claim must have a nodeClassRef.group."""
    reference = {"group": "", "kind": "KaitoNodeClass", "name": "default"}
    found = await causes(server, CLAIMS, claim_body(server, spec={"nodeClassRef": reference}))
    assert found == [("spec.nodeClassRef.group", "FieldValueInvalid", "group may not be empty")]


def lax(crd: Json, *, demands_group: bool) -> Json:
    """The CRD as in an older release: without rules on nodeClassRef and requirements, and with laxer durations."""
    older: Json = json.loads(json.dumps(crd))
    spec = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del spec["nodeClassRef"]["properties"]["group"]["x-kubernetes-validations"]
    del spec["requirements"]["x-kubernetes-validations"]
    del spec["expireAfter"]["pattern"]
    if not demands_group:
        spec["nodeClassRef"]["required"] = ["kind", "name"]
    return older


async def legacy_claim(server: Server, reference: Json) -> tuple[str, Json]:
    """The collection of a copy of our CRD, and a claim from before its upgrade that the new schema would refuse."""
    crd = json.loads(json.dumps(all_crds()["karpenter.sh_nodeclaims.yaml"]))
    group = f"{server.case}.example.com"
    crd["metadata"] = {"name": f"nodeclaims.{group}"}
    crd["spec"]["group"] = group
    collection = f"/apis/{group}/v1/nodeclaims"
    async with server.stream(CRDS, fieldSelector=f"metadata.name=nodeclaims.{group}") as watch:
        await server.done("POST", CRDS, lax(crd, demands_group="group" in reference))
        await watch.until(lambda event: is_served(event.object))
    requirement = {"key": "a", "operator": "In", "values": []}
    spec = {"nodeClassRef": reference, "requirements": [requirement], "expireAfter": "1d"}
    body = claim_body(server, spec=spec, finalizers=["example.com/old"]) | {"apiVersion": f"{group}/v1"}
    made = await server.done("POST", collection, body)
    await server.patch(f"{CRDS}/nodeclaims.{group}", {"spec": crd["spec"]})
    probe = {**body, "metadata": {"name": server.name("probe")}}
    async with asyncio.timeout(300):
        # The new schema is in force when it refuses what the old one accepted.
        while (await server.request("POST", collection, probe, dryRun="All")).status != 422:
            pass
    return collection, made


@pytest.mark.parametrize("group", [{"group": ""}, {}], ids=["empty", "absent"])
async def test_a_legacy_claim_stays_editable_and_deletable(server: Server, group: Json) -> None:
    """After an upgrade of the CRD, a claim with an empty or absent group accepts labels, finalizers and a status and
    can be deleted: unchanged fields are not validated again.
    """
    collection, made = await legacy_claim(server, {**group, "kind": "KaitoNodeClass", "name": "default"})
    path = at(collection, made)
    both = ["example.com/old", "karpenter.sh/termination"]
    add = [
        {"op": "test", "path": "/metadata/finalizers", "value": both[:1]},
        {"op": "add", "path": "/metadata/finalizers", "value": both},
    ]
    assert (await server.patch(path, add, JSON_PATCH))["spec"] == made["spec"]
    assert (await server.patch(path, {"metadata": {"labels": {"a": "b"}}}))["metadata"]["labels"]["a"] == "b"
    assert (await server.patch(at(collection, made, "status"), {"status": {"nodeName": "n"}}))["status"]
    await server.refused(422, "Invalid", "PATCH", path, {"spec": {"nodeClassRef": {"kind": "Other"}}}, how=MERGE)
    assert (await server.delete(path))["metadata"]["deletionTimestamp"]
    remove = [
        {"op": "test", "path": "/metadata/finalizers", "value": both},
        {"op": "remove", "path": "/metadata/finalizers"},
    ]
    await server.patch(path, remove, JSON_PATCH)
    assert await server.absent(path)

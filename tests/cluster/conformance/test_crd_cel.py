"""The CEL rules of a CRD: their words, their places, when they are tried, and what they forgive."""

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
    """Field, reason and words of each cause for which a create is refused."""
    said = await server.refused(422, "Invalid", "POST", collection, body)
    return [(c["field"], c["reason"], words(c["message"])) for c in said["details"]["causes"]]


def words(message: str) -> str:
    """A rule's own words: before them 1.34 shows the value's type, and 1.36 the value if it is a plain one."""
    return re.sub(r'^Invalid value: ("[^"]*": )?', "", message)


async def test_a_broken_rule_says_its_message(server: Server) -> None:
    """At the path of what the rule is about."""
    body = widget_body(server, spec={"size": 1, "parts": [{"key": "a", "values": []}]})
    found = await causes(server, WIDGETS, body)
    assert found == [("spec.parts", "FieldValueInvalid", "each part needs a value")]


async def test_a_rule_may_point_to_a_field_and_give_a_reason(server: Server) -> None:
    """fieldPath, reason and messageExpression."""
    found = await causes(server, WIDGETS, widget_body(server, spec={"size": 1, "least": 2}))
    assert found == [("spec.least", "FieldValueInvalid", "least may not be above size")]
    body = widget_body(server, spec={"size": 1, "parts": [{"key": "a.test/x", "values": ["x"]}]})
    found = await causes(server, WIDGETS, body)
    assert found == [("spec.parts[0].key", "FieldValueForbidden", "Forbidden: not in a.test/x")]


async def test_all_broken_rules_are_told(server: Server) -> None:
    """Two rules, two causes, and a message with both in brackets."""
    spec = {"size": 1, "least": 2, "parts": [{"key": "a.test/x", "values": ["x"]}]}
    said = await server.refused(422, "Invalid", "POST", WIDGETS, widget_body(server, spec=spec))
    assert {cause["field"] for cause in said["details"]["causes"]} == {"spec.least", "spec.parts[0].key"}
    assert " is invalid: [spec." in said["message"]


async def test_a_rule_that_cannot_be_evaluated_refuses(server: Server) -> None:
    """An absent field within a rule is an error of the rule, told with its message."""
    body = widget_body(server, spec={"size": 1, "parts": [{"key": "a"}]})
    found = await causes(server, WIDGETS, body)
    said = "no such key: values evaluating rule: each part needs a value"
    assert found == [("spec.parts", "FieldValueInvalid", said)]


async def test_rules_are_tried_beside_bounds(server: Server) -> None:
    """A value out of bounds does not keep the rules from being tried."""
    found = await causes(server, WIDGETS, widget_body(server, spec={"size": 10, "least": 20}))
    assert [field for field, _, _ in found] == ["spec.size", "spec.least"]


async def test_a_transition_rule_holds_between_two_versions(server: Server) -> None:
    """Not at birth; afterwards the old value counts."""
    made = await widget(server, spec={"size": 3, "fixed": "a"})
    said = await server.refused(422, "Invalid", "PATCH", at(WIDGETS, made), {"spec": {"fixed": "b"}}, how=MERGE)
    (cause,) = said["details"]["causes"]
    assert (cause["field"], words(cause["message"])) == ("spec", "fixed is immutable")
    patched = await server.patch(at(WIDGETS, made), {"spec": {"size": 4}})
    assert patched["spec"]["fixed"] == "a"


async def test_a_claims_spec_is_immutable(server: Server) -> None:
    """What `kubectl edit` runs into: 422, the field spec, our words."""
    made = await claim(server)
    body = {"spec": {"expireAfter": "1h"}}
    said = await server.refused(422, "Invalid", "PATCH", at(CLAIMS, made), body, how=MERGE)
    (cause,) = said["details"]["causes"]
    assert (cause["field"], words(cause["message"])) == ("spec", "spec is immutable")
    name = made["metadata"]["name"]
    assert said["message"] == f'NodeClaim.karpenter.sh "{name}" is invalid: spec: {cause["message"]}'


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
async def test_a_claims_requirements_are_ruled(server: Server, requirement: Json, place: str, message: str) -> None:
    """The rules that Karpenter's CRD has, in its words."""
    ((field, _, said),) = await causes(server, CLAIMS, claim_body(server, spec={"requirements": [requirement]}))
    assert (field, said) == (f"spec.requirements{place}", message)


async def test_a_value_that_is_no_number_breaks_its_rule(server: Server) -> None:
    """int() of a word is an error of the rule, not of the server."""
    requirement = {"key": "a", "operator": "Gt", "values": ["x"]}
    ((field, _, message),) = await causes(server, CLAIMS, claim_body(server, spec={"requirements": [requirement]}))
    assert field == "spec.requirements"
    assert "type conversion error from 'string' to 'int' evaluating rule: requirements operator 'Gt'" in message


async def test_an_empty_group_is_refused_at_birth(server: Server) -> None:
    """What claims of the time before nodeClassRef.group have, new ones may not."""
    reference = {"group": "", "kind": "KaitoNodeClass", "name": "default"}
    found = await causes(server, CLAIMS, claim_body(server, spec={"nodeClassRef": reference}))
    assert found == [("spec.nodeClassRef.group", "FieldValueInvalid", "group may not be empty")]


def lax(crd: Json, *, demands_group: bool) -> Json:
    """The same CRD as an older release had it: without rules on nodeClassRef and requirements, and laxer on times."""
    older: Json = json.loads(json.dumps(crd))
    spec = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del spec["nodeClassRef"]["properties"]["group"]["x-kubernetes-validations"]
    del spec["requirements"]["x-kubernetes-validations"]
    del spec["expireAfter"]["pattern"]
    if not demands_group:
        spec["nodeClassRef"]["required"] = ["kind", "name"]
    return older


async def legacy_claim(server: Server, reference: Json) -> tuple[str, Json]:
    """The collection of a copy of our CRD, and a claim in it from before its upgrade that it would refuse by now."""
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
    async with asyncio.timeout(30):
        # The new schema is in force when it refuses what the old one took.
        while (await server.request("POST", collection, probe, dryRun="All")).status != 422:
            pass
    return collection, made


@pytest.mark.parametrize("group", [{"group": ""}, {}], ids=["empty", "absent"])
async def test_a_legacy_claim_stays_editable_and_deletable(server: Server, group: Json) -> None:
    """A claim with an empty group, or with none, that an upgraded CRD would refuse today is labelled, finalized, given
    a status and let go all the same: what a write does not change is not held against it."""
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

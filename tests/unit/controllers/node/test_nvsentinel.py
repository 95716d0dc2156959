"""What is done about a TerminateNode or RebootNode, as a table."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controllers.node.health import nvsentinel
from controllers.node.health.nvsentinel import RECORD, Answer, Delete, NotManaged, Prove, Record, Request, decide
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

NODE = "aks-gpu1-12345678-vmss000000"
OLD, REQUESTED, NEW = (datetime(2026, 3, 1, 12, minute, tzinfo=UTC) for minute in (0, 30, 59))


def claim(uid: str = "u1", *, created: datetime = OLD, deleting: bool = False, kaito: bool = True) -> NodeClaim:
    body: dict[str, Any] = {
        "metadata": {
            "name": "gpu1",
            "uid": uid,
            "creationTimestamp": created,
            "labels": {"kaito.sh/workspace": "phi"} if kaito else {},
        },
        "status": {"nodeName": NODE},
    }
    if deleting:
        body["metadata"]["deletionTimestamp"] = created + timedelta(minutes=1)
    return msgspec.convert(body, NodeClaim)


def node(uid: str = "u1", *, created: datetime = OLD) -> Node:
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "gpu1", "uid": uid}
    meta = {"name": NODE, "uid": "n1", "creationTimestamp": created, "ownerReferences": [owner] if uid else []}
    return msgspec.convert({"metadata": meta}, Node)


def condition(kind: str, status: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": "Because", "message": message}


def request(*conditions: dict[str, str], name: str = NODE, deleting: bool = False, reboots: bool = False) -> Request:
    meta: dict[str, Any] = {"name": "maintenance-1", "uid": "r1", "creationTimestamp": REQUESTED}
    if deleting:
        meta["deletionTimestamp"] = NEW
    return msgspec.convert(
        {
            "kind": "RebootNode" if reboots else "TerminateNode",
            "meta": meta,
            "node_name": name,
            "conditions": conditions,
            "complete": "NodeTerminated",
            "reboots": reboots,
        },
        Request,
    )


RECORDED = condition(RECORD, "True", nvsentinel.record(claim()))
DONE, FAILED, UNKNOWN = (condition("NodeTerminated", status) for status in ("True", "False", "Unknown"))
LIVE, GOING, NEXT = claim(), claim(deleting=True), claim("u2", created=NEW)

ROWS: list[tuple[str, Request, Node | None, NodeClaim | None, NodeClaim | None, object]] = [
    ("a new request", request(), node(), LIVE, None, Delete(claim=LIVE, recorded=False)),
    ("NVSentinel's initial condition", request(UNKNOWN), node(), LIVE, None, Delete(claim=LIVE, recorded=False)),
    ("its Node is gone, the claim is not", request(), None, LIVE, None, Delete(claim=LIVE, recorded=False)),
    ("recorded, and not sent", request(RECORDED), node(), LIVE, LIVE, Delete(claim=LIVE, recorded=True)),
    ("another claim is recorded", request(RECORDED), node("u2"), NEXT, LIVE, Delete(claim=NEXT, recorded=False)),
    ("the claim of no Node is recorded", request(RECORDED), None, None, LIVE, NotManaged),
    ("recorded, and in progress", request(RECORDED), node(), GOING, GOING, None),
    ("somebody else deleted the claim", request(), node(), GOING, None, Record(claim=GOING)),
    ("the claim is gone", request(RECORDED), None, None, None, Prove(name="gpu1", uid="u1")),
    (
        "its successor has the name",
        request(RECORDED),
        node("u2", created=NEW),
        NEXT,
        None,
        Prove(name="gpu1", uid="u1"),
    ),
    ("complete", request(RECORDED, DONE), node("u2", created=NEW), NEXT, None, None),
    ("refused", request(FAILED), node(), LIVE, None, None),
    ("withdrawn", request(deleting=True), node(), LIVE, None, None),
    ("an adopted machine", request(), node(), NEXT, None, Delete(claim=NEXT, recorded=False)),
    ("a newer claim, whose Node is away", request(), None, NEXT, None, None),
    (
        "a newer claim that is deleted, whose Node is away",
        request(),
        None,
        claim("u2", created=NEW, deleting=True),
        None,
        None,
    ),
    ("a Node that registered again", request(), node(created=NEW), LIVE, None, Delete(claim=LIVE, recorded=False)),
    ("a refused restart", request(FAILED, reboots=True), node(), LIVE, None, None),
    ("a restart of another's Node", request(reboots=True), node(""), None, None, NotManaged),
    ("a Node of others", request(), node(""), None, None, NotManaged),
    ("no Node", request(name="typo"), None, None, None, NotManaged),
]


@pytest.mark.parametrize(
    ("requested", "of", "owner", "known", "expected"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_a_request_leads_to_one_decision(
    requested: Request, of: Node | None, owner: NodeClaim | None, known: NodeClaim | None, expected: object
) -> None:
    """A class stands for any of its values."""
    found = decide(requested, of, owner, known, NEW)
    assert isinstance(found, expected) if isinstance(expected, type) else found == expected


@pytest.mark.parametrize(
    ("requested", "of", "owner", "answer", "words"),
    [
        (request(reboots=True), node(), LIVE, ("False", "RebootNotSupported"), "create a TerminateNode"),
        (request(name=""), None, None, ("False", "InvalidNodeName"), "spec.nodeName is empty"),
        (request(), node("u2", created=NEW), NEXT, ("True", "NodeReplaced"), "newer than this request"),
    ],
)
def test_an_answer_says_why(
    requested: Request, of: Node | None, owner: NodeClaim | None, answer: tuple[str, str], words: str
) -> None:
    """The message names the remedy, or what has happened."""
    found = decide(requested, of, owner, None, NEW)
    assert isinstance(found, Answer)
    assert (found.status, found.reason) == answer
    assert words in found.message


WAITS = UNKNOWN | {"reason": "RemovalRestricted"}


@pytest.mark.parametrize(
    ("requested", "hours", "refused"),
    [
        (request(), 0.99, False),
        (request(), 1.01, True),
        (request(UNKNOWN), 1.01, True),
        (request(WAITS), 23.9, False),
        (request(WAITS), 24.1, True),
        (request(RECORDED), 100.0, False),
    ],
)
def test_an_old_request_is_refused(requested: Request, hours: float, refused: bool) -> None:
    """After an hour; after a day if it has waited for the limit; never once its deletion is recorded."""
    known = LIVE if RECORDED in requested.conditions else None
    found = decide(requested, node(), LIVE, known, REQUESTED + timedelta(hours=hours))
    assert isinstance(found, Answer if refused else Delete)
    if isinstance(found, Answer):
        assert (found.status, found.reason) == ("False", "RequestTooOld")
        assert f"the request is {hours:.0f} h old" in found.message
        assert "NodeClaim gpu1" in found.message


def test_a_request_that_waits_for_the_limit_says_so_once() -> None:
    """It names the claim, so that a user can delete it instead."""
    found = nvsentinel.waiting(request(), LIVE)
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "RemovalRestricted")
    assert "NodeClaim gpu1" in found.message
    assert nvsentinel.waiting(request(WAITS), LIVE) is None


@pytest.mark.parametrize("name", ["../../nodes/x", "A", "a b", "a" * 254, "-a"])
def test_names_are_those_of_the_api_server(name: str) -> None:
    """Neither the request nor what others write into its status becomes part of a request otherwise."""
    found = decide(request(name=name), None, None, None, NEW)
    assert isinstance(found, Answer)
    assert found.reason == "InvalidNodeName"
    assert nvsentinel.recorded(request(condition(RECORD, "True", f"NodeClaim {name} with UID u1 is deleted"))) is None


def test_a_condition_is_replaced_and_others_are_kept() -> None:
    """The list on the object is written whole."""
    requested = request(condition("SignalSent", "True"), UNKNOWN)
    answer = Answer(status="True", reason="NodeClaimGone", message="gone")
    kept, new = nvsentinel.with_condition(requested, requested.complete, answer, "2026-03-01T13:00:00Z")
    assert kept["type"] == "SignalSent"
    assert (new["type"], new["status"], new["lastTransitionTime"]) == ("NodeTerminated", "True", "2026-03-01T13:00:00Z")


@pytest.mark.parametrize(
    ("claims", "of", "found"),
    [
        ([LIVE], node(), LIVE),
        ([LIVE], node(""), None),
        ([LIVE], node("another"), None),
        ([LIVE], None, LIVE),
        ([claim(kaito=False)], node(), None),
        ([claim(kaito=False)], None, None),
        ([LIVE, NEXT], None, None),
        ([], None, None),
    ],
)
def test_the_claim_of_a_node_is_ours_and_certain(
    claims: list[NodeClaim], of: Node | None, found: NodeClaim | None
) -> None:
    """By the marks of the Node; without a Node by the claim's status, if there is one such claim."""
    assert nvsentinel.claim_of(NODE, of, claims) == found

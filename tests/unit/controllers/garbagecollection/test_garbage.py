"""Tables of inferred removals, of the circuit breaker, and of adoptions."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec
import pytest

from cloudprovider.interface import Cluster, Instance, InstanceState
from controllers.garbagecollection import candidates, garbage
from controllers.garbagecollection.circuit_breaker import allowance, tripped
from controllers.model import adoption, steps
from controllers.model.facts import Candidate, ClusterCounts, Facts
from controllers.model.failures import CloudFailure
from controllers.model.ownership import Verdict, belongs, held_by, verdict
from controllers.model.policy import Policy
from controllers.nodeclaim.lifecycle.registration import step as register
from controllers.planner.evaluation import candidate
from controllers.planner.plan import plan
from controllers.state.gc_candidates import GCCandidates
from provisioner.api import labels
from provisioner.api.meta import OwnerReference
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.time import rfc3339
from tests.unit.builders import BORN, KEY, NODE, NOW, UID, claim, facts, instance, node

OLD_UID = "uid-0"
UP = ("Launched", "Registered", "Initialized", "Ready")
READY = claim(up=UP, node_name=NODE)
GOING = claim(up=UP, deleting=True)
ANSWERLESS = CloudFailure(kind="retryable", reason="Unreachable", message="m", at=-1.0, delay=30.0)


def orphan(**fields: object) -> Facts:
    known: dict[str, object] = {
        "candidate": Candidate(cause="orphan-pool", since=-1000.0),
        "claim_read_age": 1.0,
        "pool_read_age": 1.0,
        "instance": instance(),
        **fields,
    }
    return facts(**known)


def owned(made: Node, *uids: str) -> Node:
    """The Node, owned by the claims with these UIDs."""
    owners = tuple(OwnerReference(api_version="karpenter.sh/v1", kind="NodeClaim", name=KEY, uid=uid) for uid in uids)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, owner_references=owners))


WAITS = [
    ("nothing, when all is known and calm", {}, steps.DeleteInstance),
    ("caches that nothing ails", {"kube_current": False}, steps.Wait),
    ("a read of the cluster newer than the first sight", {"cluster_age": 1001.0}, steps.LookUpCluster),
    ("not for one that is as old", {"cluster_age": 1000.0}, steps.DeleteInstance),
    ("its time, when the cloud does not answer", {"cluster_age": 1001.0, "read_failed": ANSWERLESS}, steps.Wait),
    ("a read of the claim that is fresh", {"claim_read_age": 11.0}, steps.LookUpClaim),
    (
        "a read of the pool that is newer than the first sight",
        {
            "candidate": Candidate(cause="node-deleted", since=-6.0),
            "claims": (READY,),
            "claim_read": READY,
            "nodes": (node(deleting=True),),
            "pool_read_age": 7.0,
        },
        steps.LookUpPool,
    ),
    ("people, when the CRD is younger than the pool", {"crd_created": BORN + timedelta(seconds=1)}, steps.Wait),
    ("not for a CRD that is older", {"crd_created": BORN - timedelta(seconds=1)}, steps.DeleteInstance),
    (
        "a confirmation lifts that",
        {"crd_created": BORN + timedelta(seconds=1), "counts": ClusterCounts(confirmed=True)},
        steps.DeleteInstance,
    ),
    (
        "a confirmation lifts the circuit breaker",
        {"counts": ClusterCounts(restricted=True, confirmed=True)},
        steps.DeleteInstance,
    ),
    (
        "but never a cluster that does not run",
        {"counts": ClusterCounts(confirmed=True), "cluster": Cluster(running=False)},
        steps.Wait,
    ),
    (
        "nor a pool at which AKS works",
        {"counts": ClusterCounts(confirmed=True), "instance": instance(raw_state="Upgrading")},
        steps.Wait,
    ),
]


@pytest.mark.parametrize(("case", "known", "expected"), WAITS, ids=[row[0] for row in WAITS])
def test_conditions_of_an_inferred_removal(case: str, known: Mapping[str, object], expected: type) -> None:
    """Each condition alone blocks a removal."""
    assert isinstance(plan(orphan(**known)), expected), case


OTHER = node(name="aks-gpu1-2")
# The pool's machines, whether the deleted Node is Ready, the other Nodes, the candidate's age, the step.
OUTLIVED = [
    ("its machine is gone, and the other one is Ready", 1, "Unknown", (OTHER,), 6.0, steps.ReleaseFinalizer),
    ("its machine may be gone", 1, "True", (OTHER,), 59.0, steps.Wait),
    ("it is Ready for too long: a user deleted it", 1, "True", (OTHER,), 60.0, steps.DeleteClaim),
    ("there is no other Node", 1, "Unknown", (), 6.0, steps.DeleteClaim),
    ("the other Node is not Ready", 1, "Unknown", (node(name="aks-gpu1-2", ready="False"),), 6.0, steps.DeleteClaim),
    ("as many machines as Nodes: a user deleted it", 2, "Unknown", (OTHER,), 6.0, steps.DeleteClaim),
]


@pytest.mark.parametrize(
    ("case", "row", "expected"), [(case, row, step) for case, *row, step in OUTLIVED], ids=[row[0] for row in OUTLIVED]
)
def test_a_machine_that_another_one_of_its_pool_outlives(
    case: str, row: tuple[int, str, tuple[Node, ...], float], expected: type
) -> None:
    """Its Node loses our finalizer, and the claim is kept for the other machine."""
    count, ready, others, age = row
    known = facts(
        claims=(READY,),
        claim_read=READY,
        claim_read_age=1.0,
        pool_read_age=1.0,
        instance=instance(count=count),
        nodes=(node(deleting=True, ready=ready), *others),
        candidate=Candidate(cause="node-deleted", since=-age),
    )
    assert isinstance(garbage.step(known), expected), case


def test_the_crd_is_read_before_a_deletion_counts_as_requested() -> None:
    """The first step of every removal; the result decides whether the circuit breaker applies."""
    unread = facts(claims=(GOING,), instance=instance(), crd_known=False)
    assert isinstance(plan(unread), steps.LookUpCrds)
    assert isinstance(plan(msgspec.structs.replace(unread, crd_known=True)), steps.DeleteInstance)


def test_kubernetes_deletes_a_node_of_a_former_claim() -> None:
    """With an owner reference to its claim, a user deleted it; to a former claim, the garbage collector did."""
    gone = node(deleting=True)
    for made, expected in ((gone, "node-deleted"), (owned(gone, UID), "node-deleted"), (owned(gone, OLD_UID), None)):
        assert candidates.candidate_cause(facts(claims=(READY,), instance=instance(), nodes=(made,))) == expected


def test_a_leftover_node_is_not_removed_while_the_api_server_has_its_claim() -> None:
    """A stale list does not contain the claim, but the fresh read does."""
    known = {
        "candidate": Candidate(cause="leftover-node", since=-1000.0),
        "claim_read_age": 1.0,
        "pool_read_age": 1.0,
        "absence": "absent",
        "proof_age": 1.0,
        "nodes": (node(ready="Unknown"),),
    }
    assert isinstance(plan(facts(**known)), steps.DeleteNode)
    assert isinstance(plan(facts(**known, claim_read=READY)), steps.Wait)


# The circuit breaker


@pytest.mark.parametrize(("pools", "most"), [(0, 3), (1, 3), (15, 3), (19, 3), (20, 4), (100, 20)], ids=str)
def test_the_allowance(pools: int, most: int) -> None:
    """Three, or a fifth if that is more; one more opens the circuit breaker."""
    policy = Policy()
    assert allowance(policy, pools) == most
    assert not tripped(policy, pools=pools, removals=most)
    assert tripped(policy, pools=pools, removals=most + 1)


def test_all_keys_are_evaluated_before_the_first_answer() -> None:
    """The first call evaluates every key; later ones those that changed."""
    seen: dict[str, Instance | None] = {"a": instance(), "b": instance(), "c": None}
    requested: list[str] = []

    def evaluate(key: str) -> Candidate | None:
        requested.append(key)
        return candidate(facts(key=key, instance=seen[key]))

    candidates = GCCandidates(evaluate, lambda: tuple(seen))
    assert {key: (one.cause, one.claim_uid) for key, one in candidates.found().items()} == {
        "a": ("orphan-pool", UID),
        "b": ("orphan-pool", UID),
    }
    assert requested == ["a", "b", "c"]
    seen["b"] = instance(InstanceState.DELETING)
    assert sorted(candidates.found()) == ["a", "b"], "no change was reported"
    candidates.key_changed("b")
    assert sorted(candidates.found()) == ["a"]
    assert requested[3:] == ["b"]
    candidates.all_changed()
    assert sorted(candidates.found()) == ["a"]
    assert requested[4:] == ["a", "b", "c"]
    candidates.key_changed("c")
    candidates.evaluated("c", Candidate(cause="orphan-pool", since=0.0))
    assert sorted(candidates.found()) == ["a", "c"]
    assert requested[7:] == [], "a pass has judged it"


# Adoption


def living(uid: str) -> NodeClaim | None:
    """The claim with this UID."""
    return claim(name="other", uid=uid) if uid == "uid-alive" else None


MINE, THEIRS = instance(uid=OLD_UID), instance(uid="uid-9")
ADOPTIONS = [
    ("none is requested", "", THEIRS, ""),
    ("its own UID", UID, THEIRS, ""),
    ("the pool bears that UID", OLD_UID, MINE, ""),
    ("there is no pool to take over", OLD_UID, None, ""),
    (
        "a pool of another name has it",
        "uid-9",
        None,
        f'agent pool {KEY} has UID "uid-9", and cannot be renamed to that of this claim',
    ),
    ("a living claim has it", "uid-alive", MINE, 'claim other is there and has UID "uid-alive"'),
    ("a living claim has it, and there is no pool", "uid-alive", None, 'claim other is there and has UID "uid-alive"'),
    ("the pool bears another", OLD_UID, THEIRS, f'agent pool {KEY} bears "uid-9", not "{OLD_UID}"'),
    ("a text of a terminal", "\x1b[2J\u202e\nX", THEIRS, rf'agent pool {KEY} bears "uid-9", not "\x1b[2J\u202e\nX"'),
    ("a long text", "x" * 100, THEIRS, f'agent pool {KEY} bears "uid-9", not "{"x" * 64}..."'),
    ("the pool is foreign", OLD_UID, instance(uid=""), f'agent pool {KEY} bears no UID of ours, not "{OLD_UID}"'),
]


@pytest.mark.parametrize(("case", "wanted", "pool", "why"), ADOPTIONS, ids=[row[0] for row in ADOPTIONS])
def test_validity_of_an_adoption(case: str, wanted: str, pool: Instance | None, why: str) -> None:
    """It is valid if no live claim has that UID, and the machine of this key has it."""
    asking = claim(annotations={labels.ADOPT: wanted} if wanted else {})
    assert adoption.refusal(asking, instance=pool, nodes=(), living=living, pools=lambda: (THEIRS,)) == why, case
    assert labels.ADOPT not in adoption.without(asking).metadata.annotations


def test_an_adopted_machine_belongs_to_the_claim() -> None:
    """All predicates of ownership agree, with and without the annotation."""
    heir = claim(up=("Launched",), annotations={labels.ADOPT: OLD_UID})
    born = node(uid_label=OLD_UID)
    assert verdict(MINE, heir) is Verdict.OURS
    assert held_by(MINE, heir)
    assert belongs(born, heir)
    stranger = adoption.without(heir)
    assert verdict(MINE, stranger) is Verdict.PREVIOUS
    assert not held_by(MINE, stranger)
    assert not belongs(born, stranger)


def test_an_adopted_machine_is_no_candidate() -> None:
    """No PUT and no removal; when the claim is deleted, its pool is deleted."""
    annotations = {labels.ADOPT: OLD_UID}
    known = {"instance": MINE, "nodes": (owned(node(uid_label=OLD_UID), UID),)}
    heir = facts(claims=(claim(annotations=annotations),), **known)
    assert candidates.candidate_cause(heir) is None
    assert not isinstance(plan(heir), steps.CreateInstance | steps.DeleteInstance | steps.DeleteClaim)
    gone = facts(claims=(claim(annotations=annotations, deleting=True),), instance=MINE)
    found = plan(gone)
    assert isinstance(found, steps.DeleteInstance)
    assert (found.instance, found.cause) == (MINE, "requested")


def test_an_adopted_nodes_owner_is_replaced() -> None:
    """Otherwise Kubernetes would delete it with its former owner; owners of other kinds are kept."""
    other = OwnerReference(api_version="v1", kind="ConfigMap", name="c", uid="c")
    born = owned(node(uid_label=OLD_UID), OLD_UID)
    metadata = msgspec.structs.replace(born.metadata, owner_references=(*born.metadata.owner_references, other))
    born = msgspec.structs.replace(born, metadata=metadata)
    heir = claim(annotations={labels.ADOPT: OLD_UID})
    taken = register(facts(claims=(heir,), instance=MINE, nodes=(born,)))
    assert isinstance(taken, steps.PatchNode)
    replaced, at = [one["value"] for one in taken.patch if one["op"] != "test"]
    assert isinstance(replaced, list | tuple)
    assert at == rfc3339(NOW), "and when that was stands on the Node"
    assert [owner["uid"] if isinstance(owner, dict) else owner.uid for owner in replaced] == ["c", UID]


def handed_over(made: Node, text: str) -> Node:
    """The Node with this value of the annotation of its hand-over."""
    notes = {**made.metadata.annotations, labels.HANDED_OVER_AT: text}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=notes))


# The Node goes since NOW; seconds from its hand-over on.
DELETED = [
    ("a minute before it was handed over", -60.0, None),
    ("as it was handed over", 0.0, None),
    ("while a request of that time may still be under way", adoption.COLLECTOR_SECONDS, None),
    ("later", adoption.COLLECTOR_SECONDS + 1.0, "node-deleted"),
]


@pytest.mark.parametrize(("case", "after", "expected"), DELETED, ids=[row[0] for row in DELETED])
def test_who_deleted_the_node_of_an_adopted_claim(case: str, after: float, expected: str | None) -> None:
    """Kubernetes, if the deletion was before or just after the hand-over."""
    heir = claim(up=UP, annotations={labels.ADOPT: OLD_UID})
    gone = owned(node(uid_label=OLD_UID, deleting=True), UID)
    dated = handed_over(gone, rfc3339(NOW - timedelta(seconds=after)))
    updates = facts(claims=(heir,), instance=MINE, nodes=(dated,))
    assert candidates.candidate_cause(updates) == expected, case
    assert (adoption.kept((dated,), heir) == "") == (expected is not None), "and the claim says so"
    for text in ("", "yesterday"):
        assert (
            candidates.candidate_cause(facts(claims=(heir,), instance=MINE, nodes=(handed_over(gone, text),)))
            == "node-deleted"
        )


def test_an_invalid_adoption_is_reported() -> None:
    """Nothing is created until the annotation is corrected."""
    step = plan(facts(claims=(claim(),), adoption_refused="because"))
    assert isinstance(step, steps.PatchStatus)
    (launched,) = [one for one in step.conditions if one.type == "Launched"]
    assert (launched.status, launched.reason) == ("Unknown", "AdoptionRefused")
    assert launched.message.startswith("cannot adopt: because; correct or remove the annotation")


@pytest.mark.parametrize("tag", ["a/b", "..", "X", "\x1b", "x" * 300])
def test_a_tag_that_is_no_name_is_not_looked_up(tag: str) -> None:
    """Whoever may change tags must not make each pass over the pool fail; no claim has such a name."""
    orphan = msgspec.structs.replace(instance(uid="uid-9"), claim_name=tag)
    candidate = Candidate(cause="orphan-pool", since=-1e6)
    step = garbage.step(facts(instance=orphan, candidate=candidate, cluster_age=0.0))
    assert step == steps.LookUpClaim(name=KEY)

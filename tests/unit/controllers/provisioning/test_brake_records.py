"""The records of the purchase brake stay small, and no pod that waits is forgotten, however many shapes there are."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import msgspec
import pytest

from controllers.provisioning.assessment import Assessment
from controllers.provisioning.brake import Brake, scopes_of
from controllers.provisioning.brake_folding import PODS_IN_ALL, RECORDS_MAX, SHAPES_MAX, with_strikes
from controllers.provisioning.brake_records import Index, Misfits, Ran, Strike, bought, pruned, retry_at, retry_scope_at
from controllers.provisioning.pods import CachedPod
from controllers.provisioning.solver.model import NO_MISFITS
from provisioner.api.meta import ObjectMeta
from provisioner.api.nodeclass import Misfit

START = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
REVISIONS = {"gpu": "r", "cpu": "r"}
# The API server stores at most 1.5 MiB of an object.
BYTES_MAX = 700_000


def strike(shape: str, *pods: str, at: int = 0, claim: str = "", namespace: str = "a", size: str = "T4") -> Strike:
    """A machine of NodePool gpu that was created at this minute did not take the pods."""
    created = START + at * MINUTE
    return Strike(
        node_pool="gpu",
        namespace=namespace,
        shape=shape,
        pod=f"{namespace}/{shape}",
        uids=pods,
        claim_uid=claim or f"claim-{at}",
        created=created,
        instance_type=size,
        message="taint policy.example.com/x is not tolerated",
        round_end=created,
        cause="taint",
    )


def pod(uid: str, shape: str, namespace: str = "a", at: int = -1) -> CachedPod:
    """A pod that was created at this minute."""
    meta = ObjectMeta(name=uid, namespace=namespace, uid=uid, creation_timestamp=START + at * MINUTE)
    return CachedPod(metadata=meta, shape=shape)


def brake(records: Misfits, minute: float, **assessed: object) -> Brake:
    """What a decision at this minute counts on."""
    assessment = Assessment(**assessed)  # type: ignore[arg-type]
    return Brake(Index(records), scopes_of(records), assessment, START + minute * MINUTE)


def with_more(records: Misfits, *strikes: Strike, minute: float) -> Misfits:
    return with_strikes(records, strikes, REVISIONS, START + minute * MINUTE)


def two_rounds(shapes: int, namespaces: int) -> Misfits:
    """Two machines for each pod; each pod has a shape of its own."""
    records: Misfits = ()
    for at in (0, 10):
        news = [
            strike(f"s{n}", f"pod-{n}", at=at, claim=f"{at}-{n // 100}", namespace=f"ns-{n % namespaces}")
            for n in range(shapes)
        ]
        records = with_more(records, *news, minute=at + 5)
    return records


@pytest.mark.parametrize(
    ("shapes", "namespaces"), [(SHAPES_MAX, 1), (150, 1), (500, 1), (2_000, 1), (1_000, 1_000), (5_000, 2_500)]
)
def test_no_pod_is_forgotten(shapes: int, namespaces: int) -> None:
    """Each pod has its two machines, and gets no other one, while the records stay within what one object holds."""
    records = two_rounds(shapes, namespaces)
    assert len(records) <= RECORDS_MAX
    assert len(msgspec.json.encode(records)) < BYTES_MAX
    decided = brake(records, 1000.0)
    for n in range(shapes):
        found = decided.misfits(pod(f"pod-{n}", f"s{n}", f"ns-{n % namespaces}"))
        assert found.waits.startswith("2 machines that were bought for it did not take it")


def test_too_many_pods_to_be_listed() -> None:
    """Those that are not listed count as the others; pods that are created later do not."""
    records = two_rounds(2 * PODS_IN_ALL, 1)
    assert len(msgspec.json.encode(records)) < BYTES_MAX
    decided = brake(records, 1000.0)
    counts = {decided.braked(pod(f"pod-{n}", f"s{n}", "ns-0")) for n in range(2 * PODS_IN_ALL)}
    assert counts == {True}
    assert decided.misfits(pod("later", "another", "ns-0", at=500)) == NO_MISFITS


def test_the_pods_of_all_records_are_bounded() -> None:
    """Each record keeps as many as the others may."""
    records = [
        Misfit(node_pool="gpu", namespace=name, shape="s", pods={f"{name}-{n}": ("m",) for n in range(PODS_IN_ALL)})
        for name in ("a", "b")
    ]
    assert [len(one.pods) for one in with_more(records, minute=1.0)] == [PODS_IN_ALL // 2] * 2


def test_other_namespaces_are_not_concerned() -> None:
    """A namespace with many shapes delays the new shapes of no other, nor those of another NodePool."""
    records: Misfits = ()
    for at in range(0, 300, 10):
        records = with_more(records, strike(f"s{at}", f"pod-{at}", at=at), minute=at + 5)
    decided = brake(records, 300.0)
    own = decided.misfits(pod("new", "new", "a"))
    assert (own.waits, [name for name, _ in own.node_pools]) == ("", ["gpu"])
    assert decided.misfits(pod("new", "new", "b")) == NO_MISFITS


def test_shapes_that_run_are_not_delayed() -> None:
    """A shape whose pods run on machines of the NodePool gets others, whatever other shapes of the namespace do."""
    records: Misfits = ()
    for at in range(0, 300, 10):
        records = with_more(records, strike(f"s{at}", f"pod-{at}", at=at), minute=at + 5)
    assert brake(records, 300.0, proven={("gpu", "web")}).misfits(pod("web-2", "web", "a")) == NO_MISFITS


def test_new_shapes_of_one_namespace() -> None:
    """A namespace whose pods change their requests each minute gets 5 machines, then one after 10 minutes, doubling."""
    records: Misfits = ()
    machines = minute = 0
    rounds = list[int]()
    while minute < 24 * 60:
        one = pod(f"pod-{minute}", f"s{minute}", at=minute)
        if not brake(records, minute).braked(one):
            machines += 1
            rounds.append(minute)
            # Its pod is gone before it is Ready, and another one waits.
            gone = strike("", at=minute, claim=f"claim-{minute}")
            records = with_more(pruned(records, uids=(), ran={}, now=START + minute * MINUTE), gone, minute=minute + 5)
            minute += 5
        minute += 1
    assert machines <= 5 + 6 + 4
    waits = [later - earlier for earlier, later in pairwise(rounds)]
    assert waits[:4] == [6] * 4
    assert waits[5] < waits[6] < waits[7]
    assert max(waits) <= 6 * 60 + 6


def test_one_round_at_a_time() -> None:
    """After the wait one decision buys machines; others wait until these show whether they take the pods."""
    records: Misfits = ()
    for at in range(0, 60, 10):
        records = with_more(records, strike(f"s{at}", at=at), minute=at + 5)
    assert not brake(records, 500.0).braked(pod("new", "new"))
    assert brake(records, 500.0, trying={("gpu", "a")}).braked(pod("new", "new"))
    assert not brake(records, 500.0, trying={("gpu", "b")}).braked(pod("new", "new"))
    again = with_more(with_more((), strike("s", at=0), minute=5), strike("s", at=10), minute=15)
    assert not brake(again, 500.0).braked(pod("new", "s"))
    assert brake(again, 500.0, trying={("gpu", "s")}).braked(pod("new", "s"))


def test_pods_alike_of_which_one_runs() -> None:
    """Each of the others may get one more machine, after the wait; that wait grows with each machine in vain."""
    records = with_more((), strike("s", "a", "b", at=0), minute=5)
    records = with_more(records, strike("s", "a", "b", at=10), minute=15)
    ran = {("gpu", "s"): Ran(START + 20 * MINUTE, "A10")}
    early = pruned(records, uids={"a", "b"}, ran=ran, now=START + 16 * MINUTE)
    assert bought(early, "a", START) == 2
    records = pruned(records, uids={"a", "b"}, ran=ran, now=START + 40 * MINUTE)
    assert bought(records, "a", START) == 1
    records = with_more(records, strike("s", "a", "b", at=45), minute=50)
    assert bought(records, "a", START) == 2
    assert retry_at(records) == START + 50 * MINUTE + 20 * MINUTE


def test_a_size_that_is_too_small_stays_known() -> None:
    """A larger machine takes the pods of a shape: the next ones do not begin with the smaller one again, for a day."""
    records = with_more((), strike("s", "a", at=0, size="T4"), minute=5)
    ran = {("gpu", "s"): Ran(START + 10 * MINUTE, "A10")}
    records = pruned(records, uids=(), ran=ran, now=START + 60 * MINUTE)
    assert brake(records, 60.0).misfits(pod("b", "s")).types == {("gpu", "T4")}
    assert pruned(records, uids=(), ran=ran, now=START + 25 * 60 * MINUTE) == []


def test_a_machine_counts_once() -> None:
    """What is recorded of a machine is no news, also when its shape is one of many."""
    one = strike("s", "a", at=0)
    records = with_more((), one, minute=5)
    assert not Index(records).is_news(one)
    assert Index(records).is_news(strike("s", "b", at=0))
    assert Index(records).is_news(strike("s", at=10))
    many = with_more(records, *(strike(f"s{n}", f"p{n}", at=0) for n in range(50)), minute=6)
    assert [one.shape for one in many] == [""]
    assert not Index(many).is_news(one)
    assert Index(many).is_news(strike("other", "new", at=0))


def test_rounds_far_apart_do_not_add_up() -> None:
    """One machine in vain every 23 hours delays no new shape; one every 10 minutes does."""
    for minutes, waits in ((23 * 60, 0), (10, 8)):
        records: Misfits = ()
        found = []
        for number in range(12):
            at = number * minutes
            records = pruned(records, uids=(), ran={}, now=START + at * MINUTE)
            records = with_more(records, strike("", at=at, size=""), minute=at)
            found.append(retry_scope_at(records[0]))
        assert len([one for one in found if one is not None]) == waits

"""Where the pods of a machine go whose replacement is Initialized, as a table."""

from collections.abc import Callable

import msgspec
import pytest

from controllers.disruption.command import Command
from controllers.disruption.commands_under_way import Places, Replacement
from controllers.disruption.places import UNKNOWN, for_pods, places
from controllers.provisioning.solver.model import NewMachine
from tests.unit.builders import NOW

from .fleet import D4, T4, UP, Fleet, pod, pool

MARKED = (*UP, "DisruptionReason")
STARTING = ("Launched", "Registered")
LACKING = "not all pods would schedule, default/"
Change = Callable[[Fleet], Fleet]


def fleet() -> Fleet:
    """The machine to delete, with a pod of 3 CPUs, and its replacement, which takes one such pod."""
    return Fleet().add("old", D4, [(3, 0)], up=MARKED).add("new", D4, up=UP[:-1])


CASES: list[tuple[str, Change, bool, bool]] = [
    ("on the replacement", lambda of: of, False, False),
    ("another pod is on it", lambda _: _stolen(), True, False),
    ("a pending pod goes first", lambda of: of.pending(pod("p", 3)), True, False),
    ("a pending pod that no machine takes", lambda of: of.pending(pod("p", 64)), False, False),
    ("a pending pod that needs little", lambda of: of.pending(pod("p", 0.1)), False, False),
    ("for both, once a machine is Ready", lambda of: of.add("b", D4, up=STARTING).pending(pod("p", 3)), True, True),
    ("for both on another machine", lambda of: of.add("b", D4).pending(pod("p", 3)), False, False),
    ("of another command", lambda of: of.add("b", D4, [(3, 0)], up=MARKED), False, False),
    ("of a machine that is being drained", lambda _: _drained(), True, False),
    ("a pod that is not created again", lambda of: _alone(), True, False),
]


def _stolen() -> Fleet:
    return Fleet().add("old", D4, [(3, 0)], up=MARKED).add("new", D4, [(3, 0)], up=UP[:-1])


def _drained() -> Fleet:
    found = fleet().add("b", D4, [(3, 0)], up=MARKED)
    meta = msgspec.structs.replace(found.claims[-1].metadata, deletion_timestamp=NOW)
    found.claims[-1] = msgspec.structs.replace(found.claims[-1], metadata=meta)
    return found


def _alone() -> Fleet:
    job: dict[str, object] = {"ownerReferences": []}
    return Fleet().add("old", D4, [pod("old-0", 3, on="old", meta=job)], up=MARKED).add("new", D4, up=UP[:-1])


@pytest.mark.parametrize(("change", "lacks", "coming"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_places(change: Change, lacks: bool, coming: bool) -> None:
    view = change(fleet()).view()
    old = next(claim for claim in view.observed.claims if claim.name == "old")
    found = places(view, Replacement(id="c", old=(old,)))
    assert (bool(found.lacking), found.coming) == (lacks, coming)
    assert found == Places() or LACKING in found.lacking or "would not be created again" in found.lacking


@pytest.mark.parametrize("missing", ["machines", "node_pools"])
def test_what_the_snapshot_lacks_is_unknown(missing: str) -> None:
    """A machine or a NodePool that cannot be read: the deletion waits, and nothing is bought."""
    view = fleet().view()
    old = next(one for one in view.machines if one.claim.name == "old")
    if missing == "machines":
        view = msgspec.structs.replace(view, machines=tuple(one for one in view.machines if one is not old))
    else:
        view = msgspec.structs.replace(view, observed=msgspec.structs.replace(view.observed, node_pools=()))
    assert places(view, Replacement(id="c", old=(old.claim,))) == Places(lacking=UNKNOWN, coming=True)
    assert for_pods(view, Command(reason="Drifted", machines=(old,))) == UNKNOWN


SIZE = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize(
    ("size", "fields", "expected"),
    [
        (D4, {}, ""),
        (T4, {}, LACKING),
        (D4, {"ownerReferences": []}, "would not be created again"),
    ],
    ids=["on the replacement", "the template has another size", "not created again"],
)
def test_the_replacement_of_a_static_machine(size: str, fields: dict[str, object], expected: str) -> None:
    """The NodePool allows this size, or a smaller one that is cheaper; the pod names the size of its machine."""
    static = pool(requirements=[{"key": SIZE, "operator": "In", "values": [size]}], replicas=1)
    running = pod("old-0", 3, on="old", meta=fields, nodeSelector={SIZE: D4})
    view = Fleet(static).add("old", D4, [running]).view()
    template = NewMachine(node_pool="gpu", pods=(), instance_types=(T4, D4), requirements={}, requests={}, price=None)
    found = for_pods(view, Command(reason="Drifted", machines=tuple(view.machines), replacements=(template,)))
    if isinstance(found, str):
        assert expected
        assert expected in found
    else:
        assert not expected
        assert [one.instance_types for one in found.replacements] == [(D4,)]
    nothing = Command(reason="Drifted", machines=(), replacements=(template,))
    assert for_pods(view, nothing) == nothing

"""One machine that was bought for pods, beside the waiting pods of one shape: the comparisons of a pass are bounded."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from provisioner.api import labels

from .bought_machine import Machine, Waiting
from .brake_records import Index, short
from .fit import Fit
from .solver import model

# Comparisons of a Node with a shape of pods in one pass; the others are made in the next ones.
FITS_MAX = 2_000


class Case(NamedTuple):
    """One machine and the pods of one shape: those that it was bought for, and those that wait now.

    `known`: it is recorded that the machine does not take those that it was bought for.
    """

    one: Machine
    uids: Sequence[str]
    pods: Sequence[Waiting]
    round_end: datetime
    found: Fit | None
    known: bool

    @property
    def shape(self) -> str:
        """That of the pods."""
        return self.pods[0].shape

    @property
    def replaced(self) -> frozenset[str]:
        """The UIDs of pods that it was bought for, and in whose place their controllers create others.

        A machine that shows why it takes no such pod counts for these whether those ran for a moment or not.
        """
        verdict = self.found.verdict if self.found is not None else ""
        shows = verdict in ("resources", "label", "taint") or (verdict == "taken" and self.one.is_taken_by_agents)
        return (self.one.gone if shows else self.one.deserted).intersection(self.uids)

    @property
    def awaited(self) -> bool:
        """Whether pods still wait that it was bought for."""
        waiting = {pod.pod.metadata.uid for pod in self.pods if not pod.pod.moves}
        return not waiting.isdisjoint(self.uids)

    @property
    def concerned(self) -> Sequence[Waiting]:
        """The pods for which the machine can count: those that it was bought for, or that replace a deleted one.

        If all of them ran elsewhere, the machine is one that nobody needed.
        """
        if self.replaced:
            return self.pods
        stated = frozenset(self.uids)
        return [pod for pod in self.pods if pod.pod.metadata.uid in stated]


def cases(
    machines: Iterable[Machine],
    waiting: Sequence[Waiting],
    records: Index,
    compare: Callable[[model.ExistingNode, model.PodSpec], Fit],
    turn: int,
) -> Iterator[Case]:
    """Each machine with each shape of pods that it was bought for and that wait. `turn`: as in `assess_machines`."""
    by_shape: dict[str, list[Waiting]] = {}
    for pod in waiting:
        by_shape.setdefault(pod.shape, []).append(pod)
    digests = {pod.pod.metadata.uid: short(pod.pod.metadata.uid) for pod in waiting} if records else {}
    found = [(one, shape) for one in machines for shape in one.purchase.pods if shape in by_shape]
    ends: dict[str, datetime] = {}
    for one, shape in found:
        created = one.claim.metadata.creation_timestamp
        ends[shape] = max(ends.get(shape, created), created)
    first = turn * FITS_MAX % len(found) if len(found) > FITS_MAX else 0
    left = FITS_MAX
    for one, shape in (*found[first:], *found[:first]):
        pods, uids = _concerned(one, by_shape[shape]), one.purchase.pods[shape]
        if not pods:
            continue
        known = _known(one, pods, uids, records, digests)
        machine, shown = _before_removal(one), None
        if machine is not None and not known and not one.served(shape) and left > 0:
            shown = compare(machine, pods[0].spec)
            left -= 1
        yield Case(one, uids, pods, ends[shape], shown, known)


def _concerned(one: Machine, pods: Sequence[Waiting]) -> Sequence[Waiting]:
    """Without those that were created when the machine was being deleted: none of them could run on it."""
    deleted = one.claim.metadata.deletion_timestamp
    return pods if deleted is None else [pod for pod in pods if pod.pod.metadata.creation_timestamp < deleted]


def _before_removal(one: Machine) -> model.ExistingNode | None:
    """The machine as it was before this controller began to remove it: the removal taints the Node, and stops it."""
    machine = one.machine
    if machine is None or not one.leaves:
        return machine
    added = {labels.DISRUPTED_TAINT, *((labels.NOT_READY_TAINT, labels.UNREACHABLE_TAINT) if one.healthy else ())}
    return msgspec.structs.replace(machine, taints=tuple(one for one in machine.taints if one.key not in added))


def _known(
    one: Machine, pods: Sequence[Waiting], uids: Sequence[str], records: Index, digests: Mapping[str, str]
) -> bool:
    stated = [digests[uid] for uid in uids if uid in digests]
    namespace = pods[0].pod.metadata.namespace
    return bool(stated) and records.states(pods[0].shape, namespace, stated, short(one.claim.uid))

"""Constraints over hostnames, and host ports: how many pods of a kind may join others on one machine.

Source: docs/references/kubernetes.md#topology-constraints.
"""

from collections.abc import Sequence

from provisioner.api.labels import HOSTNAME

from .model import PodSpec, TopologyTerm
from .ports import ports_conflict
from .resources import UNLIMITED
from .selection import Selection


def host_room(
    present: Sequence[tuple[PodSpec, int]],
    spec: PodSpec,
    terms: Sequence[TopologyTerm],
    selection: Selection,
) -> int:
    """How many pods of a spec may join the pods that are present on one machine, as far as these do not keep them out.

    `present` has a spec and a number of pods for each kind of pod on the machine.
    """
    room = UNLIMITED
    if spec.host_ports:
        room = 1
        if any(ports_conflict(spec.host_ports, other.host_ports) for other, _ in present):
            return 0
    for term in terms:
        if term.key != HOSTNAME:
            continue
        matched = sum(n for other, n in present if selection.selects(term, other))
        counts_itself = selection.selects(term, spec)
        match term.kind:
            case "spread" if counts_itself:
                room = min(room, term.max_skew - matched)
            case "spread":
                room = room if matched <= term.max_skew else 0
            case "anti-affinity":
                room = 0 if matched else min(room, 1 if counts_itself else room)
            case "affinity" if not matched and not counts_itself:
                room = 0
    return max(0, room)

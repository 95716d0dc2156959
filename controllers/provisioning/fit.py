"""Whether a machine that was bought for a pod takes it, and what differs from what was promised, field by field.

Only what the Node shows counts. Pods of others on it are no difference: they may have come before the pod.

Source: docs/adr/0063-purchase-brake.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from provisioner.api.requirements import conflict
from provisioner.api.taints import untolerated

from .purchases import Purchase
from .solver.model import ExistingNode, PodSpec, Resources
from .solver.nodes import Host, existing_host
from .solver.resources import fits, total
from .solver.views import PodViews, View

# "taken": other pods use the room. "resources", "label", "taint": why not even the empty machine takes the pod.
Verdict = Literal["fits", "taken", "resources", "label", "taint"]
SHOWN = 3
MIB = 1000 * 1024**2


class Fit(NamedTuple):
    """`what`: the first difference that keeps the pod off; "" if it fits. `keys`: its taint, label or resources."""

    verdict: Verdict
    what: str = ""
    keys: tuple[str, ...] = ()


def fit(machine: ExistingNode, spec: PodSpec, daemons: Iterable[PodSpec], well_known: frozenset[str]) -> Fit:
    """Whether a Node takes a pod with these constraints, its preferences aside; with any alternative of its devices."""
    known = tuple(daemons)
    found = [_fit(machine, one, known, well_known) for one in spec.choices]
    return next((one for verdict in ("fits", "taken") for one in found if one.verdict == verdict), found[0])


def _fit(machine: ExistingNode, spec: PodSpec, known: tuple[PodSpec, ...], well_known: frozenset[str]) -> Fit:
    view = PodViews(spec)[-1]
    empty = msgspec.structs.replace(machine, pods=tuple(pod for pod in machine.pods if pod.daemon))
    host = existing_host(empty, known, well_known)
    if (taint := untolerated(host.labelled.taints, spec.tolerations, ignore_preferred=True)) is not None:
        return Fit("taint", f"taint {taint} is not tolerated", (taint.key,))
    if host.alternative(spec, view) is None:
        return Fit("label", *_label(host, view))
    if not fits(spec.requests, host.free):
        return Fit("resources", _short(spec.requests, host.free), tuple(_lacking(spec.requests, host.free)))
    full = existing_host(machine, known, well_known)
    if fits(spec.requests, full.free):
        return Fit("fits")
    return Fit("taken", f"{_short(spec.requests, full.free)}; other pods use the room")


def difference(machine: ExistingNode, purchase: Purchase, found: Fit, spec: PodSpec) -> str:
    """How the Node differs from what was promised, in the words of the Event."""
    if found.verdict == "resources":
        return ", ".join([*_differences(machine, purchase, spec)][:SHOWN]) or found.what
    return found.what or "its Node has all that the pod requires, and kube-scheduler does not bind the pod"


def _differences(machine: ExistingNode, purchase: Purchase, spec: PodSpec) -> Iterator[str]:
    if not purchase.allocatable:
        return
    names: Sequence[str] = sorted(spec.requests, key=lambda name: (machine.allocatable.get(name, 0) > 0, name))
    for name in names:
        real, promised = machine.allocatable.get(name, 0), purchase.allocatable.get(name, 0)
        if real < promised:
            yield f"{name} allocatable {amount(name, real)}, {amount(name, promised)} were predicted"
    used = total(pod.spec.requests for pod in machine.pods if pod.daemon)
    for name in names:
        real, promised = used.get(name, 0), purchase.daemons.get(name, 0)
        if real > promised:
            yield f"daemon pods request {name} {amount(name, real)}, {amount(name, promised)} were predicted"


def _lacking(requests: Resources, free: Resources) -> list[str]:
    return [name for name, wanted in sorted(requests.items()) if wanted > free.get(name, 0)]


def _short(requests: Resources, free: Resources) -> str:
    return ", ".join(
        f"{name} {amount(name, free.get(name, 0))} is free, {amount(name, requests[name])} requested"
        for name in _lacking(requests, free)[:SHOWN]
    )


def _label(host: Host, view: View) -> tuple[str, tuple[str, ...]]:
    for alternative in view.alternatives:
        if key := conflict(host.requirements, alternative, host.labelled.open_keys):
            have = host.requirements.get(key)
            state = f"is {have.single}" if have is not None and have.single is not None else "is missing"
            return f"label {key} {state}, the pod requires {alternative[key]}", (key,)
    return "no label satisfies the pod", ()


def amount(name: str, thousandths: int) -> str:
    """A quantity as Events state it: CPU in millicores, memory in Mi, others as numbers, with digits in groups."""
    if name == "cpu":
        return f"{thousandths:,}m"
    if name in ("memory", "ephemeral-storage"):
        return f"{thousandths // MIB:,}Mi"
    return f"{thousandths // 1000:,}"

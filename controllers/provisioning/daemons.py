"""What the pods of DaemonSets request of a machine.

The newest pod of a DaemonSet has its requests: LimitRanges, webhooks and autoscalers change those of its template. What
was seen is remembered for the time when no such pod exists, as when all machines are gone; the template counts while
there was none, and again when its requests change.

Source: docs/adr/0062-learned-machines.md, https://karpenter.sh/docs/concepts/scheduling/.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

import msgspec

from provisioner.api.canonical import digest
from provisioner.api.meta import ObjectMeta
from provisioner.api.nodeclass import ObservedDaemonSet
from provisioner.api.pod import Pod
from provisioner.api.workload import DaemonSet, DaemonSetSpec, TemplateContainer

from .pods import CachedPod
from .podspecs import podspec
from .solver import model
from .solver.reasons import quantities
from .solver.resources import parse

# One that differs in more is counted while it has pods, and not remembered.
DAEMON_SETS_MAX, REQUESTS_MAX = 50, 10


class _Daemon(NamedTuple):
    """A DaemonSet: the constraints of its template, and its newest pod."""

    name: str
    spec: model.PodSpec
    newest: CachedPod | None


def scheduled(found: DaemonSet) -> DaemonSet:
    """The DaemonSet as scheduling reads it: neither its status nor the programs and volumes of its pods."""
    spec = found.spec.template.spec
    containers = (TemplateContainer(resources=one.resources, ports=one.ports) for one in spec.containers)
    spec = msgspec.structs.replace(spec, containers=tuple(containers), volumes=())
    template = msgspec.structs.replace(found.spec.template, spec=spec)
    return DaemonSet(metadata=found.metadata, spec=DaemonSetSpec(template=template))


def daemon_specs(
    daemon_sets: Iterable[DaemonSet], pods: Iterable[Pod], known: Iterable[ObservedDaemonSet] = ()
) -> tuple[model.PodSpec, ...]:
    """The constraints of the pods that DaemonSets create; those that cannot be scheduled are left out.

    `known`: what was observed before.
    """
    remembered = {one.daemon_set: one for one in known}
    return tuple(
        msgspec.structs.replace(one.spec, requests=_requests(one, remembered)) for one in _read(daemon_sets, pods)
    )


def observed_daemon_sets(
    daemon_sets: Iterable[DaemonSet], pods: Iterable[Pod], known: Iterable[ObservedDaemonSet]
) -> tuple[ObservedDaemonSet, ...]:
    """What is to be remembered: the requests that differ from those of the template; by name."""
    remembered = {one.daemon_set: one for one in known}
    found = list[ObservedDaemonSet]()
    for one in _read(daemon_sets, pods):
        requests = _requests(one, remembered)
        if requests != one.spec.requests and len(requests) <= REQUESTS_MAX:
            found.append(ObservedDaemonSet(daemon_set=one.name, requests=quantities(requests), template=_template(one)))
    return tuple(found[:DAEMON_SETS_MAX])


def _requests(one: _Daemon, remembered: Mapping[str, ObservedDaemonSet]) -> model.Resources:
    if one.newest is not None:
        return one.newest.constraints.requests
    before = remembered.get(one.name)
    if before is None or before.template != _template(one):
        return one.spec.requests
    try:
        return parse(before.requests)
    except ValueError:
        return one.spec.requests


def _template(one: _Daemon) -> str:
    return digest(sorted(one.spec.requests.items()))


def _read(daemon_sets: Iterable[DaemonSet], pods: Iterable[Pod]) -> Iterator[_Daemon]:
    """The DaemonSets whose pods can be scheduled, by name."""
    newest: dict[str, CachedPod] = {}
    for pod in cast("Iterable[CachedPod]", pods):
        before = newest.get(pod.daemon_set) if pod.daemon_set else None
        if pod.daemon_set and (before is None or before.metadata.creation_timestamp < pod.metadata.creation_timestamp):
            newest[pod.daemon_set] = pod
    for one in sorted(daemon_sets, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        template, (namespace, name) = one.spec.template, (one.metadata.namespace, one.metadata.name)
        meta = ObjectMeta(name=name, namespace=namespace, labels=template.metadata.labels)
        try:
            spec = podspec(Pod(metadata=meta, spec=template.spec))
        except ValueError:
            continue
        yield _Daemon(f"{namespace}/{name}", spec, newest.get(one.metadata.uid))

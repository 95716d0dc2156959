"""The pods that need a place, and what they require of a machine, with their volumes, devices and misfits.

Source: docs/references/karpenter.md#scheduling.
"""

from collections.abc import Sequence, Set

import msgspec

from cloudprovider.cloud import Cloud
from controllers.model.storage import Storage
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import why_foreign
from provisioner.api.pod import Pod

from .brake import Brake
from .devices import Claimed, claimed
from .extended_resources import may_be_devices, of_classes
from .observed import Observed
from .pods import CachedPod, displaced, provisionable
from .solver import model
from .solver.comparisons import TooLargeError
from .solver.views import comparisons
from .volumes import ANYWHERE, Alternatives, Made, both, compatible, volume_requirements


def demand(
    pods: Sequence[Pod], nodes: Sequence[Node], claims: Sequence[NodeClaim], replaced: Set[str] = frozenset()
) -> tuple[CachedPod, ...]:
    """The pods that need a place: pending ones, then those of machines of NodePools that are being removed or
    replaced. Another controller, such as Karpenter, replaces its own machines.

    `replaced`: the UIDs of NodeClaims whose replacements exist. Their pods need the replacements, which pending pods
    could take otherwise. Before they exist, the command that creates them counts the pods.
    """
    removed = {node.name for node in nodes if node.deleting}
    leaving = {
        claim.status.node_name
        for claim in claims
        if not why_foreign(claim) and (claim.deleting or claim.uid in replaced or claim.status.node_name in removed)
    }
    return (*provisionable(pods), *displaced(pods, leaving))


def is_read(pod: CachedPod, storage: Storage) -> bool:
    """Whether the volumes and devices of the pod were requested."""
    templates = (one.template for one in pod.devices)
    return storage.requested.issuperset(pod.claims) and storage.devices.requested.issuperset(templates)


def with_volumes(pod: CachedPod, storage: Storage, cloud: Cloud) -> model.PodSpec:
    """The pod's constraints with those of its volumes and devices; one object for equal pods without devices.

    Raises ValueError if no machine would help the pod, TooLargeError if its constraints need too much work.
    """
    if pod.error:
        raise TooLargeError(pod.error) if pod.too_large else ValueError(pod.error)
    if not is_read(pod, storage):
        raise ValueError("its volumes or its devices have not been read yet")
    volumes = volume_requirements(pod.claims, storage)
    own, devices, gpus = pod.constraints, storage.devices, cloud.device_templates()
    extended = of_classes(own.requests, devices)
    if pod.devices:
        plugged = may_be_devices(own.requests)
        found = claimed(pod.devices, devices, gpus, bound=bool(pod.spec.node_name), plugged=plugged, extended=extended)
        return _with_devices(own, volumes, found)
    if extended:
        key = "devices", id(own), id(volumes)
        return Made.of(storage).once(
            key, lambda: _with_devices(own, volumes, claimed((), devices, gpus, extended=extended)), kept=(own, volumes)
        )
    if not volumes:
        return own
    return Made.of(storage).once((id(own), id(volumes)), lambda: _where_usable(own, volumes), kept=(own, volumes))


def _where_usable(own: model.PodSpec, volumes: Alternatives) -> model.PodSpec:
    found = msgspec.structs.replace(own, volumes=compatible(own.alternatives, volumes))
    comparisons(found)
    return found


def _with_devices(own: model.PodSpec, volumes: Alternatives, devices: Sequence[Claimed]) -> model.PodSpec:
    """The constraints with each alternative of the devices that the pod's own constraints and its volumes allow."""
    spec, error = None, ValueError()
    for one in reversed(devices):
        places = both(volumes or ANYWHERE, (one.requirements,))
        if not places:
            error = ValueError("no VM size has the GPUs that it claims where its volumes can be used")
            continue
        try:
            places = compatible(own.alternatives, places)
        except ValueError as why:
            error = why
            continue
        kept = {name: amount for name, amount in own.requests.items() if name not in one.instead}
        spec = msgspec.structs.replace(own, volumes=places, requests={**kept, **one.requests}, otherwise=spec)
    if spec is None:
        raise error
    comparisons(spec)
    return spec


def check_namespaces(pod: CachedPod, observed: Observed) -> None:
    """Raises ValueError if a required term selects namespaces by labels that are not known."""
    if observed.namespaces_error and any(
        one.selector.expressions for term in pod.constraints.topology if not term.weight for one in term.namespaces
    ):
        raise ValueError(
            "its namespaceSelector compares labels of Namespaces, which cannot be read:"
            f" {observed.namespaces_error}; grant list and watch of namespaces"
        )


class Braked:
    """Adds to the constraints of pods what did not take them before; equal results are one object."""

    def __init__(self, brake: Brake | None) -> None:
        self._brake = brake
        self._made: dict[tuple[int, model.Misfits], tuple[model.PodSpec, model.PodSpec]] = {}

    def __call__(self, pod: CachedPod, spec: model.PodSpec) -> model.PodSpec:
        misfits = model.NO_MISFITS if self._brake is None else self._brake.misfits(pod)
        if misfits == model.NO_MISFITS:
            return spec
        key = id(spec), misfits
        if key not in self._made:
            self._made[key] = spec, spec.with_changes(misfits=misfits)
        return self._made[key][1]

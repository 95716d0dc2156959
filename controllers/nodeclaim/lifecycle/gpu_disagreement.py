"""Devices that a Node offers otherwise than its node class states, although each of them works: a person's setting.

The kubelet counts an unhealthy device in capacity and not in allocatable. A Node whose capacity is allocatable too has
no such device: its plugin is configured for other devices than the node class states. A new machine would be the same,
so the setting is reported with its remedy and the machine stays. A number that no division of all GPUs alike explains
is no setting: a plugin that restarts leaves out a GPU that is lost. Pure.

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager,
docs/references/kubernetes.md#gpu-resource-names.
"""

import msgspec

from controllers.model.devices import gpus_of, pools_of
from controllers.model.facts import Facts
from controllers.model.gpu_devices import Devices, declares_devices
from provisioner.api.node import Node
from provisioner.api.nodeclass import GpuSettings
from provisioner.vendors import driver_of, is_divisible

from . import dra
from .expected_gpus import amount, sees_fewer_gpus


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """What the Node offers, and what its node class states; `remedy`: what makes them agree."""

    text: str
    remedy: str


def disagreement(f: Facts, node: Node, expected: Devices, seen: int) -> Disagreement | None:
    """Why the Node offers `seen` of these devices without a fault of the machine; None if no setting explains it.

    Of whole GPUs that nobody divided, a missing one is lost: a plugin that restarts omits it.
    """
    settings = f.node_class.spec.gpu if f.node_class is not None else GpuSettings()
    driver = driver_of(f.gpus.resource)
    if dra.gpu_driver(f):
        # Also while the device plugin restarts: its devices stay in capacity.
        served = amount(node.status.capacity, f.gpus.resource)
        return _stated(f, f"a device plugin offers {served} {f.gpus.resource}", "mode DRA") if served else None
    if amount(node.status.capacity, expected.resource) > seen:
        return None
    slices = (one for one in f.slices or () if one.spec.node_name == node.name)
    if not seen and (published := gpus_of(pools_of(slices, driver))):
        return _stated(f, f"DRA driver {driver} offers {published} GPUs", f"mode {settings.mode}")
    if instead := _instead(node, expected.resource):
        return _stated(f, f"the device plugin offers {instead} instead", _arrangement(expected, settings))
    if not seen or not declares_devices(settings) or sees_fewer_gpus(f.gpus, node) or _is_uneven(f, settings, seen):
        return None
    return _stated(f, f"all {seen} {expected.resource} of the device plugin work", _arrangement(expected, settings))


def _is_uneven(f: Facts, settings: GpuSettings, seen: int) -> bool:
    """Whether GPUs that are all divided alike cannot have so many devices: some GPUs are missing."""
    return settings.mig_strategy != "Mixed" and bool(f.gpus.count) and seen % f.gpus.count != 0


def _instead(node: Node, resource: str) -> str:
    """Whole GPUs, slices or shared GPUs under another name, all of them healthy; "" without any."""
    found = node.status.allocatable
    others = (one for one in sorted(found) if one != resource and is_divisible(one))
    name = next((one for one in others if 0 < amount(found, one) >= amount(node.status.capacity, one)), "")
    return f"{amount(found, name)} {name}" if name else ""


def _arrangement(expected: Devices, settings: GpuSettings) -> str:
    """What the node class states; without a statement, the devices of the size."""
    stated = (
        [f"migProfile {settings.mig_profile}", f"migStrategy {settings.mig_strategy}"] if settings.mig_profile else []
    )
    stated += [f"sharedReplicas {settings.shared_replicas}"] if settings.shared_replicas > 1 else []
    return f"{', '.join(stated) or 'whole GPUs'} ({expected.count} {expected.resource})"


def _stated(f: Facts, offered: str, stated: str) -> Disagreement:
    name = f.claim.spec.node_class_ref.name if f.claim is not None and f.node_class is not None else ""
    where = f"AgentPoolNodeClass {name} states" if name else "the claim expects"
    remedy = "make spec.gpu and the plugin's configuration agree" if name else "configure the plugin for whole GPUs"
    return Disagreement(text=f"{offered}, {where} {stated}", remedy=remedy)

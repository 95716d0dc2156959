"""Extended resources that a DeviceClass names: kube-scheduler allocates devices for them on a Node without a plugin.

A DeviceClass states the name in `extendedResourceName`; besides, each has a name of its own. An API server without this
feature drops the field. Of several classes with one name the newest one counts.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#extended-resource.
"""

from collections.abc import Iterable, Mapping

from controllers.model.storage import DeviceClaims
from provisioner.api.deviceclaim import DeviceRequest, ExactRequest

from .offered import is_plugged
from .solver import model

OF_CLASS = "deviceclass.resource.kubernetes.io/"


def may_be_devices(requests: Iterable[str]) -> bool:
    """Whether one of these resources may be that of a DeviceClass."""
    return any(map(is_plugged, requests))


def of_classes(requests: model.Resources, found: DeviceClaims) -> Mapping[str, DeviceRequest]:
    """The requests of a pod for which devices can be allocated, as those of a claim, by the name of the resource."""
    if not found.classes or not may_be_devices(requests):
        return {}
    ordered = sorted(found.classes.values(), key=lambda one: one.metadata.name, reverse=True)
    ordered.sort(key=lambda one: one.metadata.creation_timestamp)
    named = {one.spec.extended_resource_name: one.metadata.name for one in ordered if one.spec.extended_resource_name}
    named |= {OF_CLASS + one.metadata.name: one.metadata.name for one in ordered}
    return {
        name: DeviceRequest(name=name, exactly=ExactRequest(device_class_name=named[name], count=-(-amount // 1000)))
        for name, amount in requests.items()
        if name in named and amount > 0
    }

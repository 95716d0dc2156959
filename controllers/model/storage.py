"""The volumes and the claims for devices of pods, as one decision reads them."""

from collections.abc import Mapping

import msgspec

from provisioner.api.deviceclaim import DeviceClass, ResourceClaim, ResourceClaimTemplate
from provisioner.api.volume import PersistentVolume, PersistentVolumeClaim, StorageClass


class DeviceClaims(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server returned. `claims`: all ResourceClaims as `namespace/name`; `classes`: all DeviceClasses.

    `templates`: those of `requested` that exist, as `namespace/name`. `error`: why nothing could be read.
    """

    requested: frozenset[str] = frozenset()
    claims: Mapping[str, ResourceClaim] = {}
    templates: Mapping[str, ResourceClaimTemplate] = {}
    classes: Mapping[str, DeviceClass] = {}
    error: str = ""


class Storage(msgspec.Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """What the API server returned for the PersistentVolumeClaims `requested`, named `namespace/name`.

    `claims` lacks those that do not exist. `volumes`: those that claims are bound to, by name. `classes`: all
    StorageClasses by name, if one of the claims is not bound. `unread`: claims of which something could not be read,
    each with the cause.
    `devices`: what the same pods claim besides volumes. Only the same object is equal, so that what is made of it can
    be kept beside it.
    """

    requested: frozenset[str] = frozenset()
    claims: Mapping[str, PersistentVolumeClaim] = {}
    volumes: Mapping[str, PersistentVolume] = {}
    classes: Mapping[str, StorageClass] = {}
    unread: Mapping[str, str] = {}
    devices: DeviceClaims = DeviceClaims()

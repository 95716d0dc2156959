"""The claims for devices that pods refer to, as one decision reads them."""

from collections.abc import Mapping

import msgspec

from provisioner.api.deviceclaim import DeviceClass, ResourceClaim, ResourceClaimTemplate


class DeviceClaims(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server returned. `claims`: all ResourceClaims as `namespace/name`; `classes`: all DeviceClasses.

    `templates`: those of `requested` that exist, as `namespace/name`. `error`: why nothing could be read.
    """

    requested: frozenset[str] = frozenset()
    claims: Mapping[str, ResourceClaim] = {}
    templates: Mapping[str, ResourceClaimTemplate] = {}
    classes: Mapping[str, DeviceClass] = {}
    error: str = ""

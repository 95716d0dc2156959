"""Core quotas of a subscription: by family, in the region, and for spot.

The usage of a pool is the cores of its size times `count`; failed and deleting pools have none. Spot pools use the
low-priority quota, other pools that of their family and of the region. A limit that is not set is unlimited.

Source: docs/references/agent-pools.md#quota-and-capacity-errors, docs/references/agent-pools.md#gpu-sizes.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import errors, faults, sizes
from .agentpool import Pool
from .errors import Answer
from .faults import Failure
from .settings import AzureSettings

_SIZE = re.compile(r"Standard_([A-Z]+)\d+([a-z]*)_?(.*?)_?(v\d+)?", re.IGNORECASE)
_FREE = frozenset({"Failed", "Canceled", "Deleting"})


class Shortage(NamedTuple):
    """`what`: the quota's name in Compute's messages; the others are cores."""

    what: str
    limit: int
    usage: int
    needed: int


def family(vm_size: str) -> str:
    """The family's name in quota messages: StandardNCADSA100v4Family for NC24ads_A100_v4."""
    match = _SIZE.fullmatch(vm_size)
    if match is None:
        return "StandardFamily"
    letters, extras, chip, version = match.groups()
    return f"Standard{letters.upper()}{extras.upper()}{chip}{version or ''}Family"


def shortage(
    settings: AzureSettings, pools: Mapping[str, Pool], name: str, properties: Mapping[str, Any]
) -> Shortage | None:
    """The first quota that this PUT of pool `name` would exceed."""
    vm_size = str(properties.get("vmSize") or "")
    spot = properties.get("scaleSetPriority") == "Spot"
    needed = cores(vm_size, int(properties.get("count") or 1))
    others = [pool for pool in pools.values() if pool.name != name and pool.state not in _FREE]
    alike, kind = [pool for pool in others if (pool.priority == "Spot") == spot], family(vm_size)
    limits = {limited.casefold(): cores for limited, cores in settings.family_cores.items()}
    checks: list[tuple[str, int | None, list[Pool]]] = [("LowPriorityCores", settings.low_priority_cores, alike)]
    if not spot:
        same_family = [pool for pool in alike if family(pool.size).casefold() == kind.casefold()]
        checks = [(f"{kind} Cores", limits.get(kind.casefold()), same_family)]
        checks.append(("Total Regional Cores", settings.regional_cores, alike))
    for what, limit, users in checks:
        usage = sum(cores(pool.size, pool.count) for pool in users)
        if limit is not None and usage + needed > limit:
            return Shortage(what, limit, usage, needed)
    return None


def refusal(short: Shortage, location: str) -> Answer:
    """The error of AKS's check before acceptance."""
    left = max(0, short.limit - short.usage)
    message = (
        "Preflight validation check for resource(s) for container service failed. Message: Insufficient vcpu quota "
        f"requested {short.needed}, remaining {left} for family {short.what.removesuffix(' Cores')} "
        f"for region {location}."
    )
    return errors.rp(400, "ErrCode_InsufficientVCPUQuota", message)


def failure(short: Shortage, location: str) -> Failure:
    """The error of Compute after acceptance."""
    error = faults.quota_exceeded(
        short.what, limit=short.limit, usage=short.usage, needed=short.needed, region=location
    )
    return Failure(error=faults.wrapped(error))


def cores(vm_size: str, count: int) -> int:
    """The cores of `count` machines of a size."""
    size = sizes.find(vm_size)
    return size.vcpus * count if size is not None else 0

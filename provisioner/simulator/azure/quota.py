"""Cores that a subscription may use: by family, in the region, and as spot.

What pools use is what they ask for (cores of their size times `count`), failed and deleting ones aside; spot
pools draw on the low-priority quota, all others on their family's and the region's; a limit that is not set is none.

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
    """`what` is the quota's name in Compute's words; the rest are cores."""

    what: str
    limit: int
    usage: int
    needed: int


def family(vm_size: str) -> str:
    """The family's name as quota messages give it: NC24ads_A100_v4 is of StandardNCADSA100v4Family."""
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
        kin = [pool for pool in alike if family(pool.size).casefold() == kind.casefold()]
        checks = [(f"{kind} Cores", limits.get(kind.casefold()), kin)]
        checks.append(("Total Regional Cores", settings.regional_cores, alike))
    for what, limit, users in checks:
        usage = sum(cores(pool.size, pool.count) for pool in users)
        if limit is not None and usage + needed > limit:
            return Shortage(what, limit, usage, needed)
    return None


def refusal(short: Shortage, location: str) -> Answer:
    """AKS's own check, before the PUT is accepted."""
    left = max(0, short.limit - short.usage)
    message = (
        "Preflight validation check for resource(s) for container service failed. Message: Insufficient vcpu quota "
        f"requested {short.needed}, remaining {left} for family {short.what.removesuffix(' Cores')} "
        f"for region {location}."
    )
    return errors.rp(400, "ErrCode_InsufficientVCPUQuota", message)


def failure(short: Shortage, location: str) -> Failure:
    """Compute's word, after the PUT was accepted."""
    error = faults.quota_exceeded(
        short.what, limit=short.limit, usage=short.usage, needed=short.needed, region=location
    )
    return Failure(error=faults.wrapped(error))


def cores(vm_size: str, count: int) -> int:
    """What so many machines of a size draw on its quota."""
    size = sizes.find(vm_size)
    return size.vcpus * count if size is not None else 0

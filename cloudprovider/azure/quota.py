"""The quotas of Compute that an offering needs, and whether the usage of a location leaves enough of each.

Pure. A spot machine needs the spot vCPUs of the location, an on-demand machine those of its VM family and of the whole
location. A quota that is not listed, or whose family is not known here, is not checked.

Source: https://learn.microsoft.com/en-us/rest/api/compute/usage/list (units, names),
https://learn.microsoft.com/en-us/azure/quotas/per-vm-quota-requests (spot and regional vCPUs),
https://learn.microsoft.com/en-us/azure/virtual-machines/vm-naming-conventions (vCPUs in names),
https://docs.openshift.com/rosa/rosa_architecture/rosa_policy_service_definition/rosa-instance-types.html (families).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from cloudprovider.cloud import Skus
from cloudprovider.errors import QUOTA_EXCEEDED, NoCapacity, Scope
from cloudprovider.interface import SPOT, Failure, Offering, OfferingQuota, QuotaLeft, Usage

from .error_table import RAISE_QUOTA
from .errors import NO_CAPACITY_BYTES
from .messages import format_message

TOTAL, LOW_PRIORITY = "cores", "lowprioritycores"

_VCPUS = re.compile(r"(?:Standard|Basic)_[A-Za-z]+(\d{1,4})", re.IGNORECASE)
# By the beginning and the end of a size's name.
_FAMILIES = (
    (re.compile(r"standard_nc\d+as_t4_v3"), "Standard NCASv3_T4 Family"),
    (re.compile(r"standard_nc\d+ads_a100_v4"), "StandardNCADSA100v4Family"),
    (re.compile(r"standard_nc\d+ad(i)?s_h100_v5"), "StandardNCadsH100v5Family"),
    (re.compile(r"standard_ncc\d+ads_h100_v5"), "StandardNCCads2023Family"),
    (re.compile(r"standard_nd96asr_v4"), "Standard NDASv4_A100 Family"),
    (re.compile(r"standard_nd96amsr_a100_v4"), "standard NDAMSv4_A100Family"),
    (re.compile(r"standard_nd96isr_h100_v5"), "standardNDSH100v5Family"),
    (re.compile(r"standard_nd96isr_h200_v5"), "standardNDISRH200V5Family"),
    (re.compile(r"standard_nd128isr_ndr_gb200_v6"), "standardNDISRGB200V6NDRFamily"),
    (re.compile(r"standard_nd128isr_gb300_v6"), "standardNDISRGB300V6Family"),
    (re.compile(r"standard_nd40rs_v2"), "standardNDSv2Family"),
    (re.compile(r"standard_nv\d+adm?s_a10_v5"), "StandardNVADSA10v5Family"),
    (re.compile(r"standard_nd96isr?_mi300x_v5"), "standardNDISv5MI300XFamily"),
    (re.compile(r"standard_nv\d+admm?s_v710_v5|standard_nv\d+ads_v710_v5"), "StandardNVadsV710v5Family"),
    (re.compile(r"standard_ng\d+adm?s_v620_v1"), "StandardNGADSV620v1Family"),
)


def quota_name(name: str) -> str:
    """A quota's name in lower case without spaces: lists of Azure differ in both."""
    return name.casefold().replace(" ", "")


@lru_cache(maxsize=1024)
def family_of(size: str) -> str:
    """The quota family of a VM size; "" if it is not known."""
    return next((family for pattern, family in _FAMILIES if pattern.fullmatch(size.casefold())), "")


def family_in(skus: Skus, size: str) -> str:
    """The quota family of a VM size by the subscription's list of sizes, where it is known."""
    sku = (skus or {}).get(size.casefold())
    return sku.family if sku is not None else family_of(size)


def vcpus_of(size: str) -> int:
    """The vCPUs in the name of a VM size; 0 if it states none."""
    match = _VCPUS.match(size)
    return int(match[1]) if match is not None else 0


class Limit(NamedTuple):
    """The quota of which least is left for an offering, after machines that were requested since the reading."""

    name: str
    scope: Scope
    limit: int
    used: int
    needed: int

    def text(self, location: str) -> str:
        """The quota with its usage, in vCPUs."""
        return f"{_usage(self.name, location, self.limit, self.used)}, needed {self.needed}"


def _usage(name: str, location: str, limit: int, used: int) -> str:
    shown = {TOTAL: "Total Regional", LOW_PRIORITY: "LowPriority"}.get(name, name)
    return f"{shown} cores quota in {location}: limit {limit}, used {used}"


def needs(offering: Offering, skus: Skus = None) -> dict[str, int]:
    """The vCPUs that a machine needs of each quota, by its name; none if their number is not known."""
    needed = vcpus_of(offering.size)
    return {name: needed for name, _ in _names(offering, skus) if name and needed}


def quotas_left(
    usages: Mapping[str, Usage],
    names: Iterable[str],
    location: str,
    *,
    requested: Iterable[Offering] = (),
    skus: Skus = None,
) -> dict[str, QuotaLeft]:
    """What is left of these quotas, without those that are not listed. `requested` and `skus` as in `quota_of`."""
    since = Counter[str]()
    for one in requested:
        since.update(needs(one, skus))
    remedy, found = RAISE_QUOTA.format(location=location), dict[str, QuotaLeft]()
    for name in sorted(names):
        if (usage := usages.get(quota_name(name))) is not None:
            used = usage.used + since[name]
            text = _usage(name, location, usage.limit, used)
            found[name] = QuotaLeft(left=max(0, usage.limit - used), text=text, remedy=remedy)
    return found


def quota_of(
    usages: Mapping[str, Usage],
    offering: Offering,
    location: str,
    *,
    requested: Sequence[Offering] = (),
    returned: Sequence[Offering] = (),
    skus: Skus = None,
) -> OfferingQuota | None:
    """The quota of which least is left for this offering; None if none that it needs is listed.

    `usages`: by `quota_name`. `requested`: machines that the usages do not contain yet. `returned`: machines that the
    usages contain, and that are to be deleted first. `skus`: the sizes of the subscription.
    """
    least = _least(usages, offering, requested, returned, skus)
    if least is None:
        return None
    text, remedy = least.text(location), RAISE_QUOTA.format(location=location)
    message = format_message(QUOTA_EXCEEDED, text, remedy, limit=NO_CAPACITY_BYTES)
    failure = Failure(
        reason=QUOTA_EXCEEDED, message=message, code=QUOTA_EXCEEDED, kind=NoCapacity.kind, scope=least.scope
    )
    return OfferingQuota(left=least.limit - least.used, needed=least.needed, text=text, failure=failure)


def _least(
    usages: Mapping[str, Usage],
    offering: Offering,
    requested: Sequence[Offering],
    returned: Sequence[Offering],
    skus: Skus,
) -> Limit | None:
    needed = vcpus_of(offering.size)
    if not needed:
        return None
    limits = []
    for name, scope in _names(offering, skus):
        usage = usages.get(quota_name(name))
        if usage is not None:
            more, less = _vcpus(requested, name, skus), _vcpus(returned, name, skus)
            limits.append(Limit(name, scope, usage.limit, max(0, usage.used + more - less), needed))
    return min(limits, key=lambda one: one.limit - one.used, default=None)


def _vcpus(machines: Sequence[Offering], name: str, skus: Skus) -> int:
    """What these machines use of this quota."""
    return sum(vcpus_of(one.size) for one in machines if name in dict(_names(one, skus)))


def _names(offering: Offering, skus: Skus) -> tuple[tuple[str, Scope], ...]:
    """The quotas that an offering needs."""
    if offering.capacity_type == SPOT:
        return ((LOW_PRIORITY, "priority"),)
    return ((family_in(skus, offering.size), "size"), (TOTAL, "region"))

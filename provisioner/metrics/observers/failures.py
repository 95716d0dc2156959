"""Why a pool could not be had, in fourteen words: the closed set behind `create_failures_total{reason}`.

Every reason of ours, and every code of ARM's that stands in for one, falls into one class; what is new to us
is `other`.
"""

from fnmatch import fnmatchcase

from provisioner.metrics.definitions.labels import OTHER

# The first class with a pattern that fits; case does not count.
CLASSES: tuple[tuple[str, str], ...] = (
    ("quota", "quotaexceeded *insufficientvcpuquota"),
    ("sku_unavailable", "vmsizenotsupported skunotavailable availabilityzonenotsupported notavailableforsubscription"),
    ("allocation", "*allocationfailed overconstrained*allocationrequest akscapacityheavyusage"),
    ("pool_limit", "poollimitreached nodelimitreached kubenetnodecount*"),
    ("throttled", "throttled throttledbybudget subscriptionthrottled"),
    ("auth", "notoken unauthenticated authorizationfailed linkedauthorizationfailed"),
    ("cluster_not_running", "clusternotrunning"),
    ("conflict", "operationinprogress *operationpreempted* poolexists poolchanged conflict"),
    ("timeout", "timeout connectionfailed"),
    ("network", "*connfail* *lookupfail* *cnidownload* subnetisfull insufficientsubnetsize publicipcountlimitreached"),
    ("policy", "requestdisallowedbypolicy missingsubscriptionregistration readonlydisabledsubscription scopelocked"),
    ("bring_up", "vmextension* vmsscse* nodesnotready"),
    ("invalid_spec", "*invalid instancetypemissing invalid* badrequest validationerror propertychangenotallowed"),
)
_PATTERNS = tuple((name, tuple(patterns.split())) for name, patterns in CLASSES)


def failure_class(reason: str) -> str:
    """The class of a condition's reason or an error's."""
    said = reason.casefold()
    for name, patterns in _PATTERNS:
        if any(fnmatchcase(said, pattern) for pattern in patterns):
            return name
    return OTHER

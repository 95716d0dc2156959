"""Classes of creation failures: the values of the label `reason` of `gpu_provisioner_create_failures_total`.

Every reason of the program and every error code of ARM belongs to one class; unknown ones are `other`.
"""

from fnmatch import fnmatchcase

from provisioner.metrics.definitions.labels import OTHER

# The first class with a matching pattern applies; case is ignored.
CLASSES: tuple[tuple[str, str], ...] = (
    ("quota", "quotaexceeded *insufficientvcpuquota"),
    ("sku_unavailable", "vmsizenotsupported skunotavailable availabilityzonenotsupported notavailableforsubscription"),
    ("allocation", "*allocationfailed overconstrained*allocationrequest akscapacityheavyusage"),
    ("pool_limit", "poollimitreached nodelimitreached kubenetnodecount*"),
    ("throttled", "throttled clientsidethrottling subscriptionthrottled"),
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
    """The class of a condition's or an error's reason."""
    folded = reason.casefold()
    for name, patterns in _PATTERNS:
        if any(fnmatchcase(folded, pattern) for pattern in patterns):
            return name
    return OTHER

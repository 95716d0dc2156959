"""All settings by flag, with the settings of Azure/gpu-provisioner and Karpenter that have no effect here.

The latter are accepted, so that an existing deployment starts, and logged at debug level.

Source: docs/references/kaito.md#environment-variables, docs/references/karpenter.md#process.
"""

from . import kinds
from .model import OPTIONS
from .option import Option


def _ignored(env: str, *, switch: bool = False, warn: bool = False) -> Option:
    names = tuple(env.split())
    kind = kinds.BOOLEAN if switch else kinds.text("any text")
    return Option(flag=names[0].lower().replace("_", "-"), env=names, kind=kind, help="no effect", warn=warn)


IGNORED = (
    # All requests use https, but for those to a simulator on loopback.
    _ignored("HTTP_PROXY http_proxy"),
    # Requests to the API server have no client-side rate limit.
    _ignored("KUBE_CLIENT_QPS"),
    _ignored("KUBE_CLIENT_BURST"),
    _ignored("KARPENTER_SERVICE"),
    _ignored("DISABLE_CLUSTER_STATE_OBSERVABILITY", switch=True),
    _ignored("DISABLE_CONTROLLER_WARMUP", switch=True),
    _ignored("SCHEDULER_CONFIG"),
    _ignored("ENABLE_PROFILING", switch=True),
    _ignored("MEMORY_LIMIT"),
    _ignored("CPU_REQUESTS"),
    _ignored("BATCH_MAX_DURATION"),
    _ignored("BATCH_IDLE_DURATION"),
    _ignored("PREFERENCE_POLICY"),
    _ignored("MIN_VALUES_POLICY"),
    _ignored("IGNORE_DRA_REQUESTS", switch=True),
    _ignored("AZURE_ENABLE_DYNAMIC_SKU_CACHE"),
    _ignored("AZURE_NODE_RESOURCE_GROUP"),
    _ignored("CONFIG_LOGGING_NAME"),
    _ignored("SYSTEM_NAMESPACE"),
    _ignored("DISABLE_WEBHOOK"),
    _ignored("LEADER_ELECT"),
    _ignored("LOG_OUTPUT_PATHS", warn=True),
    _ignored("LOG_ERROR_OUTPUT_PATHS"),
    _ignored("E2E_TEST_MODE", warn=True),
    _ignored("AKS_E2E_OVERLAY_RESOURCE_VERSION", warn=True),
)

BY_FLAG = {option.flag: option for option in (*OPTIONS, *IGNORED)}
KNOWN_GATES = frozenset(
    {"NodeRepair", "ReservedCapacity", "SpotToSpotConsolidation", "NodeOverlay", "StaticCapacity", "CapacityBuffer"}
)

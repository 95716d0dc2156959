"""The table of settings: flag, environment variables, default and help of each.

The name of a flag is also its key in the file. Rows without a field are settings of Azure/gpu-provisioner and Karpenter
that have no effect here; they are accepted, so that an existing deployment starts, and logged at debug level. A default
that differs from that of Azure/gpu-provisioner has a comment with the reason.

Source: docs/references/kaito.md#environment-variables, docs/references/karpenter.md#process,
docs/references/karpenter.md#timers.
"""

from typing import Any

import msgspec

from . import kinds
from .kinds import Kind
from .nvsentinel import NVSENTINEL
from .readiness_rules import READINESS_RULES
from .tags import TAGS


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """`env`: the variable and its aliases; the first one that is set applies. `unset`: the meaning of no value.

    `field`: the name in `Settings`; empty for a setting without effect, which causes a warning if `warn` is set.
    """

    field: str = ""
    flag: str
    env: tuple[str, ...]
    kind: Kind
    default: Any = ""
    help: str
    unset: str = ""
    warn: bool = False

    @property
    def is_path(self) -> bool:
        """Whether the value is the path of a file."""
        return self.kind is _PATH

    @property
    def switch(self) -> bool:
        """Whether the flag may have no value, which means true."""
        return self.kind is kinds.BOOLEAN


def _option(flag: str, env: str, kind: Kind, default: Any, text: str, *, field: str = "", unset: str = "") -> Option:
    name = field or flag.replace("-", "_")
    return Option(field=name, flag=flag, env=tuple(env.split()), kind=kind, default=default, help=text, unset=unset)


def _deadline(name: str, default_seconds: float, text: str) -> Option:
    env = f"{name.upper()}_DEADLINE"
    return _option(f"{name}-deadline", env, kinds.DURATION, default_seconds, text, field=f"{name}_seconds")


def _ignored(env: str, *, switch: bool = False, warn: bool = False) -> Option:
    names = tuple(env.split())
    kind = kinds.BOOLEAN if switch else kinds.text("any text")
    return Option(flag=names[0].lower().replace("_", "-"), env=names, kind=kind, help="no effect", warn=warn)


_ID = kinds.text("an ID such as 00000000-0000-0000-0000-000000000000", r"[A-Za-z0-9-]{1,64}")
_GROUP = kinds.text("the name of a resource group: letters, digits, -_.(), at most 90", r"[\w().-]{0,89}[\w()-]")
_CLUSTER = kinds.text("the name of an AKS cluster", r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_NAME = kinds.text(
    "a Kubernetes name: lower-case letters, digits, '-' and '.'", r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
)
_PATH = kinds.text("the path of a file")
_HOSTS = kinds.text("hosts, separated by commas")
_TENANT = kinds.text("the ID or the domain of a tenant", r"[A-Za-z0-9.-]{1,253}")
_API_VERSION = kinds.text("a version such as 2026-08-01", r"20\d\d-\d\d-\d\d(-preview)?")
_PORT = kinds.whole(0, 65535)
_COUNT = kinds.whole(1, 10_000)

_AZURE = (
    _option("subscription-id", "ARM_SUBSCRIPTION_ID AZURE_SUBSCRIPTION_ID", _ID, "", "the subscription of the cluster"),
    _option("resource-group", "ARM_RESOURCE_GROUP AZURE_RESOURCE_GROUP", _GROUP, "", "the cluster's resource group"),
    _option("cluster-name", "AZURE_CLUSTER_NAME CLUSTER_NAME", _CLUSTER, "", "the name of the cluster in Azure"),
    _option("location", "LOCATION", kinds.REGION, "", "the region of the cluster", unset="read from the cluster"),
    _option("deployment-mode", "DEPLOYMENT_MODE", kinds.choice("self-hosted", "managed"), "self-hosted",
            "self-hosted: workload identity; managed: the default credential chain of azure-identity; outside a Pod the"
            " default is your own login (az login)"),
    _option("tenant-id", "AZURE_TENANT_ID", _TENANT, "", "the tenant that issues tokens"),
    _option("client-id", "AZURE_CLIENT_ID", _ID, "", "the client ID of the managed identity"),
    _option("federated-token-file", "AZURE_FEDERATED_TOKEN_FILE", _PATH, "",
            "the service account token that is exchanged for tokens of Azure"),
    _option("authority-host", "AZURE_AUTHORITY_HOST", kinds.AUTHORITY, "", "the address that issues tokens",
            unset="that of the cloud"),
    _option("azure-environment", "AZURE_ENVIRONMENT", kinds.CLOUD, "AzurePublicCloud", "the cloud", field="cloud"),
    _option("arm-endpoint", "ARM_ENDPOINT", kinds.ADDRESS, "", "the address of Azure Resource Manager",
            unset="that of the cloud"),
    _option("arm-api-version", "ARM_API_VERSION", _API_VERSION, "", "the version of the API of AKS",
            unset="the one that this program was written for"),
    _option("arm-audience", "ARM_AUDIENCE", kinds.ADDRESS, "", "the audience of its tokens", unset="that of the cloud"),
)  # fmt: skip

_CONNECTIONS = (
    _option("https-proxy", "HTTPS_PROXY https_proxy", kinds.PROXY, "", "the proxy for https"),
    _option("no-proxy", "NO_PROXY no_proxy", _HOSTS, "", "hosts that are reached without the proxy"),
    _option("ssl-cert-file", "SSL_CERT_FILE", _PATH, "", "the trusted CA certificates", unset="those of the system"),
    _option(
        "kubeconfig",
        "KUBECONFIG",
        _PATH,
        "",
        "the kubeconfig",
        unset="the service account of the Pod, elsewhere ~/.kube/config",
    ),
)

_PROCESS = (
    _option("metrics-port", "METRICS_PORT", _PORT, 8080, "the port of /metrics; 0: any free port"),
    _option("metrics-authentication", "METRICS_AUTHENTICATION", kinds.BOOLEAN, False,
            "serve /metrics only to tokens whose user the API server allows to get this path"),
    _option("health-probe-port", "HEALTH_PROBE_PORT", _PORT, 8081,
            "the port of /healthz and /readyz; 0: any free port"),
    # Azure/gpu-provisioner disables it by default. It is enabled here, because two replicas need the Lease to be safe.
    _option("disable-leader-election", "DISABLE_LEADER_ELECTION", kinds.BOOLEAN, False,
            "run without a Lease, with a single replica only"),
    # Karpenter's name would make both wait for one Lease in a cluster that runs Karpenter too. The chart of
    # Azure/gpu-provisioner grants access to this one.
    _option("leader-election-name", "LEADER_ELECTION_NAME", _NAME, "gpu-provisioner-leader-election",
            "the name of the Lease"),
    _option("leader-election-namespace", "LEADER_ELECTION_NAMESPACE", _NAME, "",
            "the namespace of the Lease, the same for all releases of a cluster", unset="kube-system"),
    _option("log-level", "LOG_LEVEL", kinds.choice("debug", "info", "warning", "error", warn="warning"), "info",
            "the minimum level of the log"),
    _option("log-encoding", "LOG_ENCODING", kinds.choice("auto", "json", "console"), "auto",
            "auto: console on a terminal, json elsewhere"),
    _option("strict-config", "STRICT_CONFIG", kinds.BOOLEAN, False,
            "report malformed environment variables as errors, not as warnings"),
)  # fmt: skip

_RULES = (
    _option("gpu-readiness", "GPU_READINESS", kinds.choice("require", "report"), "require",
            "require: Initialized waits for the GPUs; report: an Event reports missing GPUs"),
    _option("legacy-pools", "LEGACY_POOLS", kinds.choice("collect", "report"), "collect",
            "agent pools of Azure/gpu-provisioner without a NodeClaim: remove them, or only report them"),
    _option("max-agent-pools", "MAX_AGENT_POOLS", _COUNT, None, "the maximum number of agent pools in the cluster",
            unset="the cluster's limit minus 10"),
    # A cluster has at most 100 agent pools: creating all of them at once is legitimate, continuing at that rate is not.
    _option("max-creates-per-minute", "MAX_CREATES_PER_MINUTE", _COUNT, 100, "the maximum rate of created agent pools"),
    _option("node-pools", "NODE_POOLS", kinds.BOOLEAN, True,
            "create NodeClaims for pending Pods by NodePools whose node class is an AgentPoolNodeClass"),
    _option("readiness-rules", "READINESS_RULES", READINESS_RULES, (),
            "startup taints of new Nodes, and what must be ready before each is removed", unset="none"),
    _option("gkm-cleanup", "GKM_CLEANUP", kinds.BOOLEAN, False,
            "delete what the GPU Kernel Manager leaves of Nodes that are gone"),
    _option("nvsentinel", "NVSENTINEL", NVSENTINEL, None,
            "replace machines whose TerminateNodes NVSentinel creates; the names of its resources", unset="disabled"),
    _option("agent-pool-tags", "AGENT_POOL_TAGS", TAGS, {},
            "tags of all agent pools, such as an Azure Policy demands; those of a node class take precedence",
            unset="none"),
    _option("prices", "PRICES", kinds.PRICES, (), "price of a machine per hour by VM size, for metrics"),
    _option("repair-policies", "REPAIR_POLICIES", kinds.REPAIR_POLICIES, (),
            "rows of the repair policy, in JSON or YAML; each replaces the built-in rows of its signal",
            unset="the built-in rows"),
    _option("repair-dry-run", "REPAIR_DRY_RUN", kinds.BOOLEAN, False,
            "report by Events and metrics what repair would do, and do nothing"),
    # Enabled, as in Azure/gpu-provisioner. As in Karpenter, setting any gate replaces the whole default.
    _option("feature-gates", "FEATURE_GATES", kinds.GATES, (("NodeRepair", True),), "optional features"),
)  # fmt: skip

# AKS fails an agent pool whose nodes do not start within about 45 min; the GPU driver may take another 20 min.
_DEADLINES = (
    _deadline("launch", 300.0, "until Azure accepts the request for an agent pool"),
    _deadline("creating", 2700.0, "until an accepted agent pool is running"),
    _deadline("registration", 900.0, "until the Node of a running agent pool is registered"),
    _deadline("initialization", 1200.0, "until the Node is ready, without startup taints, with its GPUs"),
    _deadline(
        "draining",
        900.0,
        "until a drain is reported as slow; it continues, but without a claim or after a failed launch it ends",
    ),
    # Kubernetes stops waiting for an unmount after 6 min.
    _deadline("detaching", 360.0, "until attached volumes are reported"),
    _deadline("deleting", 1800.0, "until an agent pool that is not deleted is reported"),
    _deadline("releasing", 600.0, "until the finalizers of a Node without a machine are reported"),
)

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

OPTIONS = (*_AZURE, *_CONNECTIONS, *_PROCESS, *_RULES, *_DEADLINES)
BY_FLAG = {option.flag: option for option in (*OPTIONS, *IGNORED)}
KNOWN_GATES = frozenset(
    {"NodeRepair", "ReservedCapacity", "SpotToSpotConsolidation", "NodeOverlay", "StaticCapacity", "CapacityBuffer"}
)

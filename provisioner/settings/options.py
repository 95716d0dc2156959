"""The table of settings: every flag, environment variable, file key and default.

One row a setting; a flag's name is also the file's key. Rows without a field are names that the predecessors
know and that mean nothing here: they are accepted, so that an old deployment starts, and listed in one debug line.
Where a default differs from Azure/gpu-provisioner's, the row says why.

Source: docs/references/kaito.md#environment-variables, docs/references/karpenter.md#process,
docs/references/karpenter.md#timers.
"""

from typing import Any

import msgspec

from . import kinds
from .kinds import Kind


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """`env` lists the variable and its aliases, the first one set wins; `unset` says what no value means.

    `field` is the name in `Settings`, empty for what is accepted and ignored (with a warning, if `warn` is set).
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
        """Whether the flag may stand without a value, which then is true."""
        return self.kind is kinds.BOOLEAN


def _option(flag: str, env: str, kind: Kind, default: Any, text: str, *, field: str = "", unset: str = "") -> Option:
    name = field or flag.replace("-", "_")
    return Option(field=name, flag=flag, env=tuple(env.split()), kind=kind, default=default, help=text, unset=unset)


def _deadline(name: str, default_seconds: float, text: str) -> Option:
    env = f"{name.upper()}_DEADLINE"
    return _option(f"{name}-deadline", env, kinds.DURATION, default_seconds, text, field=f"{name}_seconds")


def _ignored(env: str, *, flag: str = "", switch: bool = False, warn: bool = False) -> Option:
    kind = kinds.BOOLEAN if switch else kinds.text("anything")
    return Option(
        flag=flag or env.lower().replace("_", "-"), env=(env,), kind=kind, help="accepted, without effect", warn=warn
    )


_ID = kinds.text("an id such as 00000000-0000-0000-0000-000000000000", r"[A-Za-z0-9-]{1,64}")
_GROUP = kinds.text("the name of a resource group: letters, digits, -_.(), at most 90", r"[\w().-]{0,89}[\w()-]")
_CLUSTER = kinds.text("the name of an AKS cluster", r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_NAME = kinds.text(
    "a Kubernetes name: lower-case letters, digits, '-' and '.'", r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
)
_PATH = kinds.text("the path of a file")
_HOSTS = kinds.text("hosts with commas between them")
_TENANT = kinds.text("a tenant's id or domain", r"[A-Za-z0-9.-]{1,253}")
_PORT = kinds.whole(0, 65535)
_RATE = kinds.whole(1, 100_000)
_COUNT = kinds.whole(1, 10_000)

_AZURE = (
    _option("subscription-id", "ARM_SUBSCRIPTION_ID AZURE_SUBSCRIPTION_ID", _ID, "", "the cluster's subscription"),
    _option("resource-group", "ARM_RESOURCE_GROUP AZURE_RESOURCE_GROUP", _GROUP, "", "the cluster's resource group"),
    _option("cluster-name", "AZURE_CLUSTER_NAME CLUSTER_NAME", _CLUSTER, "", "the cluster's name in Azure"),
    _option("location", "LOCATION", kinds.REGION, "", "the cluster's region", unset="read from the cluster"),
    _option("deployment-mode", "DEPLOYMENT_MODE", kinds.choice("self-hosted", "managed"), "self-hosted",
            "self-hosted: workload identity; managed: azure-identity's default chain"),
    _option("tenant-id", "AZURE_TENANT_ID", _TENANT, "", "the tenant that issues tokens"),
    _option("client-id", "AZURE_CLIENT_ID", _ID, "", "the identity the program acts as"),
    _option("federated-token-file", "AZURE_FEDERATED_TOKEN_FILE", _PATH, "",
            "the service account's token, exchanged for Azure's"),
    _option("authority-host", "AZURE_AUTHORITY_HOST", kinds.AUTHORITY, "", "where tokens are issued",
            unset="the cloud's own"),
    _option("azure-environment", "AZURE_ENVIRONMENT", kinds.CLOUD, "AzurePublicCloud", "the cloud", field="cloud"),
    _option("arm-endpoint", "ARM_ENDPOINT", kinds.ADDRESS, "", "Azure Resource Manager's address",
            unset="the cloud's own"),
    _option("arm-audience", "ARM_AUDIENCE", kinds.ADDRESS, "", "what ARM's tokens are for", unset="the cloud's own"),
)  # fmt: skip

_CONNECTIONS = (
    _option("https-proxy", "HTTPS_PROXY https_proxy", kinds.PROXY, "", "the proxy for https"),
    _option("http-proxy", "HTTP_PROXY http_proxy", kinds.PROXY, "", "the proxy for http"),
    _option("no-proxy", "NO_PROXY no_proxy", _HOSTS, "", "hosts reached directly"),
    _option("ssl-cert-file", "SSL_CERT_FILE", _PATH, "", "the certificates to trust", unset="the system's"),
    _option("kubeconfig", "KUBECONFIG", _PATH, "", "how to reach the cluster", unset="the pod's service account"),
    _option("kube-client-qps", "KUBE_CLIENT_QPS", _RATE, 200, "Kubernetes requests a second"),
    _option("kube-client-burst", "KUBE_CLIENT_BURST", _RATE, 300, "Kubernetes requests at once"),
)

_PROCESS = (
    _option("metrics-port", "METRICS_PORT", _PORT, 8080, "where /metrics answers; 0: any free port"),
    _option("health-probe-port", "HEALTH_PROBE_PORT", _PORT, 8081,
            "where /healthz and /readyz answer; 0: any free port"),
    # Azure/gpu-provisioner disables it by default. Here the lease is what makes two replicas safe, so it is on.
    _option("disable-leader-election", "DISABLE_LEADER_ELECTION", kinds.BOOLEAN, False,
            "run without a lease; for a single replica only"),
    # Not Karpenter's name: in a cluster that runs Karpenter too, both would wait for one lease. The predecessor's
    # chart grants this one.
    _option("leader-election-name", "LEADER_ELECTION_NAME", _NAME, "gpu-provisioner-leader-election",
            "the lease's name"),
    _option("leader-election-namespace", "LEADER_ELECTION_NAMESPACE", _NAME, "", "the lease's namespace",
            unset="the pod's own"),
    _option("log-level", "LOG_LEVEL", kinds.choice("debug", "info", "warning", "error", warn="warning"), "info",
            "the least level that is logged"),
    _option("log-encoding", "LOG_ENCODING", kinds.choice("auto", "json", "console"), "auto",
            "json for collectors, console for people; auto: console on a terminal"),
    _option("strict-config", "STRICT_CONFIG", kinds.BOOLEAN, False, "refuse what would otherwise only be warned of"),
)  # fmt: skip

_RULES = (
    _option("gpu-readiness", "GPU_READINESS", kinds.choice("require", "report"), "require",
            "require: Initialized waits for the GPUs; report: it does not, an event tells"),
    _option("legacy-pools", "LEGACY_POOLS", kinds.choice("collect", "report"), "collect",
            "Azure/gpu-provisioner's pools without a claim: remove them, or only report them"),
    _option("max-agent-pools", "MAX_AGENT_POOLS", _COUNT, None, "create none beyond this many in the cluster",
            unset="the cluster's limit minus 10"),
    # A cluster holds 100 pools: filling one at a stroke is honest use, going on at that pace is a runaway owner.
    _option("max-creates-per-minute", "MAX_CREATES_PER_MINUTE", _COUNT, 100, "create no faster than this"),
    # On, as in Azure/gpu-provisioner. Karpenter's rule stays: naming any gate replaces this default as a whole.
    _option("prices", "PRICES", kinds.PRICES, (), "what a machine costs for an hour, for metrics; nothing else is done"
            " with it"),
    _option("feature-gates", "FEATURE_GATES", kinds.GATES, (("NodeRepair", True),), "optional features"),
)  # fmt: skip

# AKS gives a pool's nodes about 45 min before it fails the pool; a GPU machine's driver may take 20 min more.
_DEADLINES = (
    _deadline("launch", 300.0, "until Azure accepts the request for a pool"),
    _deadline("creating", 2700.0, "until an accepted pool runs"),
    _deadline("registration", 900.0, "until a running pool shows its Node"),
    _deadline("initialization", 1200.0, "until the Node is ready, its startup taints gone, its GPUs there"),
    _deadline("draining", 900.0, "until a drain is reported as slow; it goes on"),
    # Kubernetes itself gives up waiting for an unmount after 6 min; earlier there is nothing to report.
    _deadline("detaching", 360.0, "until volumes that stay attached are reported"),
    _deadline("deleting", 1800.0, "until a pool that does not go is reported"),
    _deadline("releasing", 600.0, "until it is reported who keeps a Node whose machine is gone"),
)

IGNORED = (
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

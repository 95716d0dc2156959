"""The settings: one row each, with flag, environment variables, chart value, default and help.

The name of a flag is also its key in the file. `Settings` is frozen and complete. A default that differs from
Azure/gpu-provisioner's has a comment with the reason.

Source: docs/references/kaito.md#environment-variables, docs/references/karpenter.md#process,
docs/references/karpenter.md#timers.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal, get_args

import msgspec

from provisioner.api.nvsentinel import NVSentinel
from provisioner.api.readiness import SelectedReadinessRule
from provisioner.api.repair_policy import RepairPolicy

from . import kinds
from .option import Row, options_of
from .repair_policies import REPAIR_POLICIES
from .shown import describe_values
from .structured import NVSENTINEL, READINESS_RULES, TAGS

LogLevel = Literal["debug", "info", "warning", "error"]
# fmt: off


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that rules read: each is a field of `Settings` and of `controllers.model.policy.Policy`."""

    gpu_readiness: Annotated[Literal["require", "report"], Row(
        "require: Initialized waits for the GPUs; report: an Event reports missing GPUs")] = "require"
    legacy_pools: Annotated[Literal["collect", "report"], Row(
        "agent pools of Azure/gpu-provisioner without a NodeClaim: remove them, or only report them")] = "collect"
    # Limits on cost (docs/references/rules.md#limits-on-cost-and-privilege).
    max_agent_pools: Annotated[int | None, Row("the maximum number of agent pools in the cluster", kinds.COUNT,
        unset="the cluster's limit minus 10")] = None
    # A cluster has at most 100 agent pools: creating all of them at once is legitimate, continuing at that rate is not.
    max_creates_per_minute: Annotated[int, Row("the maximum rate of created agent pools", kinds.COUNT)] = 100
    # AKS limits the reads of all clusters of a subscription in a region together.
    arm_share: Annotated[float, Row(
        "the part of AKS's rate limit for reads that this cluster uses; all clusters of a subscription in a region"
        " share the limit", kinds.SHARE)] = 1.0
    # For claims of any node class, after the rules of an AgentPoolNodeClass.
    readiness_rules: Annotated[tuple[SelectedReadinessRule, ...], Row(
        "startup taints of new Nodes, and what must be ready before each is removed", READINESS_RULES,
        chart="readinessRules", unset="none")] = ()
    # Rows that replace built-in rows of the same signal (`controllers/node/health/repair_policy.py`).
    repair_policies: Annotated[tuple[RepairPolicy, ...], Row(
        "rows of the repair policy, in JSON or YAML; each replaces the built-in rows of its signal", REPAIR_POLICIES,
        unset="the built-in rows")] = ()
    repair_dry_run: Annotated[bool, Row("report by Events and metrics what repair would do, and do nothing")] = False

    # Deadlines: their end is reported by a condition, an Event and a metric. The one of a drain also ends the drain of
    # a machine without a claim and of a failed launch, which is then deleted
    # (docs/references/rules.md#every-state-has-a-deadline). AKS fails an agent pool whose nodes do not start within
    # about 45 min (docs/references/agent-pools.md#durations), and a recorded MIG pool took 26; the GPU driver may take
    # another 20 min.
    launch_seconds: Annotated[float, Row("until Azure accepts the request for an agent pool")] = 300.0
    creating_seconds: Annotated[float, Row("until an accepted agent pool is running")] = 2700.0
    registration_seconds: Annotated[float, Row("until the Node of a running agent pool is registered")] = 900.0
    initialization_seconds: Annotated[float, Row("until the Node is ready, without startup taints, with its GPUs")] = (
        1200.0
    )
    draining_seconds: Annotated[float, Row(
        "until a drain is reported as slow; it continues, but without a claim or after a failed launch it ends"
    )] = 900.0
    # Kubernetes force-detaches a volume after 6 min.
    detaching_seconds: Annotated[float, Row("until attached volumes are reported")] = 360.0
    deleting_seconds: Annotated[float, Row("until an agent pool that is not deleted is reported")] = 1800.0
    releasing_seconds: Annotated[float, Row("until the finalizers of a Node without a machine are reported")] = 600.0


class Settings(RuleSettings, frozen=True, kw_only=True):
    """All settings: durations in seconds, addresses without a trailing slash, "" for unset text.

    `warnings` and `notes` are logged at startup, notes at debug level; `origins` names the source of each value.
    """

    # Azure.
    subscription_id: Annotated[str, Row("the subscription of the cluster", kinds.ID,
        env="ARM_SUBSCRIPTION_ID AZURE_SUBSCRIPTION_ID", chart="azure.subscriptionId")] = ""
    resource_group: Annotated[str, Row("the cluster's resource group", kinds.GROUP,
        env="ARM_RESOURCE_GROUP AZURE_RESOURCE_GROUP", chart="azure.resourceGroup")] = ""
    cluster_name: Annotated[str, Row("the name of the cluster in Azure", kinds.CLUSTER,
        env="AZURE_CLUSTER_NAME CLUSTER_NAME", chart="azure.clusterName")] = ""
    location: Annotated[str, Row("the region of the cluster", kinds.REGION, chart="azure.location",
        unset="read from the cluster")] = ""
    deployment_mode: Annotated[Literal["self-hosted", "managed"], Row(
        "self-hosted: workload identity; managed: the default credential chain of azure-identity; outside a Pod the"
        " default is your own login (az login)", chart="deploymentMode")] = "self-hosted"
    # The webhook of workload identity sets these in the Pod.
    tenant_id: Annotated[str, Row("the tenant that issues tokens", kinds.TENANT, env="AZURE_TENANT_ID",
        chart="workloadIdentity.tenantId")] = ""
    client_id: Annotated[str, Row("the client ID of the managed identity", kinds.ID, env="AZURE_CLIENT_ID",
        chart="workloadIdentity.clientId")] = ""
    federated_token_file: Annotated[str, Row("the service account token that is exchanged for tokens of Azure",
        kinds.PATH, env="AZURE_FEDERATED_TOKEN_FILE", chart="")] = ""
    authority_host: Annotated[str, Row("the address that issues tokens", kinds.AUTHORITY, env="AZURE_AUTHORITY_HOST",
        chart="", unset="that of the cloud")] = ""
    cloud: Annotated[str, Row("the cloud", kinds.CLOUD, flag="azure-environment", chart="azure.environment")] = (
        "AzurePublicCloud"
    )
    arm_endpoint: Annotated[str, Row("the address of Azure Resource Manager", kinds.ADDRESS, chart="",
        unset="that of the cloud")] = ""
    arm_api_version: Annotated[str, Row("the version of the API of AKS", kinds.API_VERSION, chart="azure.apiVersion",
        unset="the one that this program was written for")] = ""
    arm_audience: Annotated[str, Row("the audience of its tokens", kinds.ADDRESS, chart="",
        unset="that of the cloud")] = ""

    # Connections.
    https_proxy: Annotated[str, Row("the proxy for https", kinds.PROXY, env="HTTPS_PROXY https_proxy", chart="")] = ""
    no_proxy: Annotated[str, Row("hosts that are reached without the proxy", kinds.HOSTS, env="NO_PROXY no_proxy",
        chart="")] = ""
    ssl_cert_file: Annotated[str, Row("the trusted CA certificates", kinds.PATH, chart="",
        unset="those of the system")] = ""
    kubeconfig: Annotated[str, Row("the kubeconfig", kinds.PATH, chart="",
        unset="the service account of the Pod, elsewhere ~/.kube/config")] = ""
    context: Annotated[str, Row("the context of the kubeconfig", kinds.CONTEXT, env="KUBE_CONTEXT", chart="",
        unset="its current context")] = ""

    # The process.
    metrics_port: Annotated[int, Row("the port of /metrics; 0: any free port", kinds.PORT,
        chart="controller.metrics.port")] = 8080
    metrics_authentication: Annotated[bool, Row(
        "serve /metrics only to tokens whose user the API server allows to get this path",
        chart="controller.metrics.authentication")] = False
    health_probe_port: Annotated[int, Row("the port of /healthz and /readyz; 0: any free port", kinds.PORT,
        chart="controller.healthProbe.port")] = 8081
    # Azure/gpu-provisioner disables it by default. It is enabled here, because two replicas need the Lease to be safe.
    disable_leader_election: Annotated[bool, Row("run without a Lease, with a single replica only",
        chart="leaderElection.enabled")] = False
    # Karpenter's name would make both wait for one Lease in a cluster that runs Karpenter too. The chart of
    # Azure/gpu-provisioner grants access to this one.
    leader_election_name: Annotated[str, Row("the name of the Lease", kinds.NAME, chart="leaderElection.name")] = (
        "gpu-provisioner-leader-election"
    )
    leader_election_namespace: Annotated[str, Row("the namespace of the Lease, the same for all releases of a cluster",
        kinds.NAME, chart="leaderElection.namespace", unset="kube-system")] = ""
    log_level: Annotated[LogLevel, Row("the minimum level of the log",
        kinds.choice(*get_args(LogLevel), warn="warning"), chart="logLevel")] = "info"
    log_encoding: Annotated[Literal["auto", "json", "console"], Row("auto: console on a terminal, json elsewhere",
        chart="logEncoding")] = "auto"
    strict_config: Annotated[bool, Row("report malformed environment variables as errors, not as warnings")] = False

    # Controllers.
    node_pools: Annotated[bool, Row(
        "create NodeClaims for pending Pods by NodePools whose node class is an AgentPoolNodeClass",
        chart="nodePools.enabled")] = True
    gkm_cleanup: Annotated[bool, Row("delete what the GPU Kernel Manager leaves of Nodes that are gone",
        chart="gkm.cleanup")] = False
    nvsentinel: Annotated[NVSentinel | None, Row(
        "replace machines whose TerminateNodes NVSentinel creates; the names of its resources", NVSENTINEL,
        chart="nvsentinel.enabled", unset="disabled")] = None
    agent_pool_tags: Annotated[Mapping[str, str], Row(
        "tags of all agent pools, such as an Azure Policy demands; those of a node class take precedence", TAGS,
        unset="none")] = {}
    prices: Annotated[tuple[tuple[str, Decimal], ...], Row(
        "price of a machine in USD an hour by VM size, instead of the list price",
        kinds.PRICES)] = ()
    retail_prices: Annotated[bool, Row(
        "read the retail prices of the region from Azure's public price list every 12 hours, instead of the list prices"
        " of this version")] = False
    # Enabled, as in Azure/gpu-provisioner. As in Karpenter, setting any gate replaces the whole default.
    feature_gates: Annotated[tuple[tuple[str, bool], ...], Row("optional features", kinds.GATES)] = (
        ("NodeRepair", True),
    )

    # fmt: on
    # Whether tokens come from the Azure CLI: outside a Pod, unless the settings name an identity.
    azure_cli: bool = False

    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    origins: tuple[tuple[str, str], ...] = ()

    @property
    def node_repair(self) -> bool:
        """Whether unhealthy Nodes are replaced."""
        return dict(self.feature_gates).get("NodeRepair", False)

    @property
    def arm_scope(self) -> str:
        """The OAuth scope of tokens for ARM."""
        return f"{self.arm_audience}/.default"

    @property
    def plain_arm(self) -> bool:
        """Whether ARM is a simulator on loopback, reached over http without tokens."""
        return self.arm_endpoint.startswith("http://")

    def __repr__(self) -> str:
        described = describe_values(OPTIONS, msgspec.structs.asdict(self), {})
        return f"Settings({', '.join(f'{row.setting}={row.value!r}' for row in described)})"


# Settings of the process first, then those of the rules.
OPTIONS = tuple(sorted(options_of(Settings), key=lambda option: option.field in RuleSettings.__struct_fields__))

"""The settings of the simulated subscription: names, durations, and alternatives where Azure's behavior is
undocumented.

Every duration is in simulated seconds, which are `speed` times shorter than the loop's.

Source: docs/references/agent-pools.md#throttling, docs/references/agent-pools.md#durations,
docs/references/agent-pools.md#limits, docs/references/agent-pools.md#unverified-behavior.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class AzureSettings:
    """One cluster in one resource group of one subscription.

    `node_share`: when the machine boots, as a share of the operation's duration; above 1 the pool is Succeeded first.
    `get_lag_seconds` and `list_lag_seconds`: the age of the state that reads serve. `list_order`: whether a LIST shows
    writes during its duration (`list_seconds`). `delete_preempts`: whether DELETE of a
    busy pool is accepted (AKSOperationPreemptedByDelete) instead of refused with 409.
    `kubernetes_version`: of the control plane, and of new pools. `node_image_release`: the newest one.
    `network_plugin` and `network_plugin_mode`: of the cluster; they decide how many pods a Node takes by default.
    `throttle`: AKS's token buckets; `arm_throttle`: ARM's, in front of them.
    `local_disks_gib`: sizes whose OS disk can be ephemeral, with their temporary disk; other sizes do not state it.
    `family_cores` (by the family's name), `regional_cores`, `low_priority_cores`: quotas, none unless set.
    `ignore_preconditions`: ignore If-Match and If-None-Match. `token`: the only accepted bearer token.
    `oidc_issuer`, `workload_identity`, `managed_prometheus`: features of the cluster.
    `identities`: client ids of the group's user-assigned identities, by name.
    `api_versions`: of AKS; other versions are refused.
    `actions`: the permissions of the caller's role, as ARM writes them; None: all.
    """

    subscription: str = "00000000-0000-0000-0000-000000000000"
    resource_group: str = "rg"
    cluster: str = "aks"
    location: str = "westeurope"
    tenant: str = "00000000-0000-0000-0000-00000000000f"
    node_resource_group: str = ""
    kubernetes_version: str = "1.33.2"
    node_image_release: str = "202608.10.0"
    max_agent_pools: int = 100
    network_plugin: str = "azure"
    network_plugin_mode: str = "overlay"
    page_size: int = 100
    create_seconds: Range = (180.0, 300.0)
    delete_seconds: Range = (120.0, 240.0)
    update_seconds: Range = (30.0, 90.0)
    node_share: Range = (0.6, 1.1)
    operation_ttl_seconds: float = 3600.0
    get_lag_seconds: float = 0.0
    list_lag_seconds: float = 0.0
    list_seconds: float = 0.3
    list_order: str = "before"
    delete_preempts: bool = False
    ignore_preconditions: bool = False
    throttle: bool = True
    arm_throttle: bool = True
    local_disks_gib: Mapping[str, int] = field(default_factory=dict)
    family_cores: Mapping[str, int] = field(default_factory=dict)
    regional_cores: int | None = None
    low_priority_cores: int | None = None
    token: str | None = None
    api_versions: tuple[str, ...] = ("2026-08-01", "2026-05-01", "2025-10-01")
    actions: frozenset[str] | None = None
    oidc_issuer: bool = True
    workload_identity: bool = True
    managed_prometheus: bool = False
    identities: Mapping[str, str] = field(default_factory=dict)
    speed: float = 1.0

    # Undocumented behavior: a setting each, with the reason of its default.
    # Compute reports a shortage after AKS accepted the PUT; both are observed, and this one is harder for clients.
    quota_check: Literal["operation", "preflight"] = "operation"
    # The general code, so that clients cannot rely on a specific one.
    pool_limit_code: str = "BadRequest"
    # Clients create different pools concurrently; 1 rejects that.
    parallel_operations: int | None = None
    # Newer API versions add members, and the SDK passes unknown members of a dictionary.
    unknown_members: Literal["ignore", "reject"] = "ignore"
    # A user pool may be at 0, so deleteMachines leaves it there.
    machines_may_empty: bool = True
    # Recorded responses to accepted writes have none.
    accepted_retry_after_seconds: int | None = None
    # The zone label of a machine outside all zones, "" for none. A Node of AKS showed 0, its fault domain.
    regional_zone: str = "0"
    # The Compute API lists 1 for sizes with a fraction of an RTX PRO 6000.
    rtx_pro_fraction_gpus: int = 1

    @property
    def machine_group(self) -> str:
        """The node resource group; AKS calls it MC_{group}_{cluster}_{location} by default."""
        return self.node_resource_group or f"MC_{self.resource_group}_{self.cluster}_{self.location}"

    @property
    def issuer(self) -> str:
        """The URL of the cluster's OIDC issuer."""
        return f"https://{self.location}.oic.prod-aks.azure.com/{self.tenant}/{self.name_digits}/"

    @property
    def cluster_id(self) -> str:
        """The managed cluster's ARM id; AKS answers with a lower-case `resourcegroups`."""
        return (
            f"/subscriptions/{self.subscription}/resourcegroups/{self.resource_group}"
            f"/providers/Microsoft.ContainerService/managedClusters/{self.cluster}"
        )

    @property
    def name_digits(self) -> str:
        """The eight digits in scale-set and Node names: a function of the cluster, equal for all its pools."""
        return f"{zlib.crc32(self.cluster_id.lower().encode()) % 10**8:08d}"

"""How the simulated subscription behaves: names, durations, and the choices Azure's documents leave open.

One frozen value; every duration is in simulated seconds, which pass `speed` times faster than the loop's.

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

    `node_share`: when the machine's Node may appear, as a share of the time the pool needs; above 1 the pool turns
    Succeeded first. `get_lag_seconds` and `list_lag_seconds`: how old the view is that reads serve. `list_order`:
    whether a LIST shows what was written while it ran (`list_seconds` long). `delete_preempts`: whether DELETE of a
    busy pool is accepted (AKSOperationPreemptedByDelete) instead of refused with 409.
    `throttle`: AKS's token buckets; `arm_throttle`: ARM's, in front of them.
    `family_cores` (by the family's name), `regional_cores`, `low_priority_cores`: quotas, none unless set.
    `ignore_preconditions`: a service that overlooks If-Match and If-None-Match. `token`: the only bearer accepted.
    `oidc_issuer`, `workload_identity`, `managed_prometheus`: what the cluster was created with.
    `identities`: client ids of the group's user-assigned identities, by name.
    `actions`: all that the caller's role allows, as ARM writes them; None: everything.
    """

    subscription: str = "00000000-0000-0000-0000-000000000000"
    resource_group: str = "rg"
    cluster: str = "aks"
    location: str = "westeurope"
    tenant: str = "00000000-0000-0000-0000-00000000000f"
    node_resource_group: str = ""
    kubernetes_version: str = "1.33.2"
    max_agent_pools: int = 100
    network_plugin: str = "azure"
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
    family_cores: Mapping[str, int] = field(default_factory=dict)
    regional_cores: int | None = None
    low_priority_cores: int | None = None
    token: str | None = None
    actions: frozenset[str] | None = None
    oidc_issuer: bool = True
    workload_identity: bool = True
    managed_prometheus: bool = False
    identities: Mapping[str, str] = field(default_factory=dict)
    speed: float = 1.0

    # What nobody has established: a switch each, and why it stands as it does.
    # A shortage is found by Compute, after AKS has accepted: both are seen, and this one takes a client longer.
    quota_check: Literal["operation", "preflight"] = "operation"
    # The general code of a refused pool: whoever knows the pool past the cap by its code alone would not know it here.
    pool_limit_code: str = "BadRequest"
    # Clients rely on creating different pools at once; where AKS does not let them, 1 makes it refuse.
    parallel_operations: int | None = None
    # API versions are meant to grow, and a plain dictionary passes unknown members through the SDK.
    unknown_members: Literal["ignore", "reject"] = "ignore"
    # A user pool may be at 0, so deleteMachines leaves it there.
    machines_may_empty: bool = True
    # Recorded answers to accepted writes bear none.
    accepted_retry_after_seconds: int | None = None
    # The Compute listing says 1 of sizes that look like fractions of an RTX PRO 6000.
    rtx_pro_fraction_gpus: int = 1

    @property
    def machine_group(self) -> str:
        """The node resource group; AKS calls it MC_{group}_{cluster}_{location} unless told otherwise."""
        return self.node_resource_group or f"MC_{self.resource_group}_{self.cluster}_{self.location}"

    @property
    def issuer(self) -> str:
        """Where the cluster's tokens are issued."""
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

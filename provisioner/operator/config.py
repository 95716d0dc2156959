"""The configuration of one controller process, and how settings map to it.

Nothing here opens a connection.
"""

import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 - the type; the caller seeds it

import yaml

from cloudprovider.cloud import Cloud
from cloudprovider.interface import CloudProvider
from cloudprovider.prices import PriceSource
from controllers.model.policy import Policy
from controllers.provisioning.instances import PriceTable
from provisioner.api.field_error import FieldError
from provisioner.api.nvsentinel import NVSentinel
from provisioner.runtime.clock import Clock
from provisioner.runtime.compute import Compute
from provisioner.runtime.connection import SERVICE_ACCOUNT, uses_service_account
from provisioner.runtime.kube import Kube
from provisioner.runtime.metrics import Metrics
from provisioner.settings import RuleSettings, Settings, SettingsError, bounded_yaml

from . import holders

# All releases of a cluster share one Lease, in a namespace that each cluster has; cert-manager's is there too.
LEASE_NAMESPACE = "kube-system"
DEFAULT_KUBECONFIG = "~/.kube/config"
# The kubelet and Prometheus connect from outside the pod.
ALL_INTERFACES = "0.0.0.0"  # noqa: S104


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """The clients, clock, random generator, metrics registry and thread for computations of one process.

    `provider` sends the requests to `cloud`. `lease_kube` has its own connection, so that requests of the controllers
    cannot delay a renewal of the Lease. `price_source` None: retail prices are not read.
    """

    kube: Kube
    lease_kube: Kube
    provider: CloudProvider
    cloud: Cloud
    clock: Clock
    rng: Random
    metrics: Metrics
    compute: Compute
    price_source: PriceSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """`elect` False is for clusters with exactly one replica. A port of None is not served at `bind_address`.

    `lease_name`, `lease_namespace`: the same for all releases of a cluster. `former_lease_namespace`: where earlier
    versions kept the Lease, "" if that is the same.
    `identity`: the holder of the Lease, unique to each start of a process and recognizable by its Pod.
    `lease_duration_seconds`, `lease_retry_seconds`: for how long a renewal lasts, and when it is renewed.
    `poll_seconds_busy`, `poll_seconds_idle`: between LISTs of agent pools; None: as the policy states.
    `settle_seconds`: how long Azure may take until a GET shows a pool whose PUT it accepted
    (docs/references/rules.md#absence-needs-proof). `prices`: USD an hour, instead of the list prices.
    `node_pools`: whether NodePools and AgentPoolNodeClasses are read. `gkm_cleanup`: whether what the GPU Kernel
    Manager leaves of Nodes that are gone is deleted. `nvsentinel` None: its resources are not watched.
    """

    policy: Policy
    elect: bool
    lease_name: str
    lease_namespace: str
    identity: str
    former_lease_namespace: str = ""
    lease_duration_seconds: float = 30.0
    lease_retry_seconds: float = 5.0
    bind_address: str = ALL_INTERFACES
    metrics_port: int | None = None
    health_port: int | None = None
    metrics_authentication: bool = False
    poll_seconds_busy: float | None = None
    poll_seconds_idle: float | None = None
    settle_seconds: float = 60.0
    prices: PriceTable = ()
    node_pools: bool = True
    gkm_cleanup: bool = False
    nvsentinel: NVSentinel | None = None


def config_from(settings: Settings, *, service_account: Path = SERVICE_ACCOUNT) -> Config:
    """The configuration of this process."""
    own = _own_namespace(service_account)
    lease_namespace = settings.leader_election_namespace or LEASE_NAMESPACE
    return Config(
        policy=policy_from(settings),
        elect=not settings.disable_leader_election,
        lease_name=settings.leader_election_name,
        lease_namespace=lease_namespace,
        former_lease_namespace=own if own != lease_namespace else "",
        identity=holders.identity(socket.gethostname(), own, secrets.token_hex(8)),
        metrics_port=settings.metrics_port,
        health_port=settings.health_probe_port,
        metrics_authentication=settings.metrics_authentication,
        prices=settings.prices,
        node_pools=settings.node_pools,
        gkm_cleanup=settings.gkm_cleanup,
        nvsentinel=settings.nvsentinel,
    )


def policy_from(settings: Settings) -> Policy:
    """What the rules read of the settings."""
    rules = {name: getattr(settings, name) for name in RuleSettings.__struct_fields__}
    return Policy(node_repair=settings.node_repair, **rules)


def _own_namespace(service_account: Path) -> str:
    """The namespace of the Pod; "" outside a Pod."""
    try:
        return (service_account / "namespace").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def in_cluster(settings: Settings, env: Mapping[str, str]) -> bool:
    """Whether the process connects to its own cluster, with the service account of its Pod."""
    return uses_service_account(settings.kubeconfig, settings.context, env)


def check_files(settings: Settings, env: Mapping[str, str]) -> None:
    """Raise SettingsError if a file that a setting names does not exist, or a kubeconfig is beyond the limits of YAML.

    The SDKs' errors do not name the setting.
    """
    found = [
        FieldError(name, "FieldValueNotFound", "there is no such file", path, remedy)
        for name, path, remedy in (
            ("SSL_CERT_FILE", settings.ssl_cert_file, "Set it to a file of PEM certificates, or unset it."),
            ("AZURE_FEDERATED_TOKEN_FILE", _token_file(settings), "Mount the service account's token at this path."),
        )
        if path and not Path(path).is_file()
    ]
    paths = settings.kubeconfig.split(os.pathsep) if settings.kubeconfig else [DEFAULT_KUBECONFIG]
    in_pod = in_cluster(settings, env)
    if not in_pod and not any(Path(path).expanduser().is_file() for path in paths):
        unset = f"it is not set, the process does not run in a pod, and there is no {paths[0]}"
        why = "there is no such file" if settings.kubeconfig else unset
        remedy = "Set it to the kubeconfig of the cluster, or run in a pod."
        found.append(FieldError("KUBECONFIG", "FieldValueNotFound", why, settings.kubeconfig, remedy))
    if not in_pod:
        found += _beyond_limits([Path(path).expanduser() for path in paths])
    if found:
        raise SettingsError(found)


def _beyond_limits(kubeconfigs: Iterable[Path]) -> Iterator[FieldError]:
    """Errors of files that the SDK's YAML parser would read without limits. Other mistakes are found by the SDK."""
    for path in kubeconfigs:
        try:
            with path.open(encoding="utf-8") as file:
                for _ in bounded_yaml.load_all(bounded_yaml.read(file)):
                    pass
        except bounded_yaml.LimitExceeded as error:
            remedy = "Write it as plain YAML, or name another kubeconfig."
            yield FieldError("KUBECONFIG", "FieldValueInvalid", f"it cannot be read: {error}", str(path), remedy)
        except (OSError, ValueError, yaml.YAMLError):
            continue


def _token_file(settings: Settings) -> str:
    required = settings.deployment_mode == "self-hosted" and not settings.plain_arm and not settings.azure_cli
    return settings.federated_token_file if required else ""

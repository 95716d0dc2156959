"""What one process of the controller is made of from outside: what it stands on, and how it is to run.

Values only; nothing is opened, read or checked here.
"""

from dataclasses import dataclass
from random import Random  # noqa: TID251 - the type; the caller seeds it

from cloudprovider.interface import CloudProvider
from controllers.model.policy import Policy
from provisioner.metrics.observers.machines import PriceTable
from provisioner.runtime.clock import Clock
from provisioner.runtime.kube import Kube
from provisioner.runtime.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What the program stands on: the two systems it talks to, time, and chance.

    `lease_kube` has a connection of its own, so that a busy client cannot cost us the lease.
    """

    kube: Kube
    lease_kube: Kube
    provider: CloudProvider
    clock: Clock
    rng: Random
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How one process runs. A port of None is not served; `elect` False is for a cluster with one replica only.

    `settle_seconds`: how long Azure may take until a GET shows a pool whose PUT it accepted
    (docs/references/rules.md#absence-needs-proof). `prices`: what an hour costs, by size, with `/spot` behind it for
    spot machines.
    """

    policy: Policy
    elect: bool
    lease_name: str
    lease_namespace: str
    identity: str
    metrics_port: int | None = None
    health_port: int | None = None
    poll_seconds_busy: float = 4.0
    poll_seconds_idle: float = 60.0
    settle_seconds: float = 60.0
    prices: PriceTable = ()

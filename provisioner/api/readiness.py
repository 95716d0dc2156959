"""Readiness rules: a startup taint that a new Node bears until something else is ready.

A rule names the taint and one condition under which it is removed: a condition of the Node, an extended resource,
devices of a DRA driver, a Ready pod on the Node, or a value of another object. Rules with the same taint are joined:
all must be satisfied.

Source: docs/references/kubernetes.md#readiness-rules.
"""

from collections.abc import Mapping

import msgspec

from provisioner.vendors import VENDORS

from .meta import EMPTY, Struct, Taint

TIMEOUT_ACTIONS = ("Keep", "Release", "Replace")
# Taints of others: of the node-readiness-controller, of Kubernetes, and of Karpenter.
FOREIGN_TAINTS = ("readiness.k8s.io/", "node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")
# Resources of device plugins for GPUs, which a machine of a DRA driver never has.
OF_PLUGINS = tuple(f"{vendor.domain}/" for vendor in VENDORS)
TAINT_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
CONDITION_STATUSES = ("True", "False", "Unknown")
RULES_MAX = 8
# Seconds. The least is longer than a plugin needs to register; a day is longer than any cache takes to be extracted.
TIMEOUT_SECONDS = (30, 86400)
TIMEOUT_DEFAULT = 1800


class UntilCondition(Struct, frozen=True, kw_only=True):
    """A condition of the Node."""

    type: str
    status: str = "True"


class UntilResource(Struct, frozen=True, kw_only=True):
    """At least `count` of an extended resource are allocatable."""

    name: str
    count: int = 1


class UntilDevices(Struct, frozen=True, kw_only=True):
    """A DRA driver has published at least `count` usable devices on the Node: of a driver of GPUs, whole GPUs."""

    driver: str
    count: int = 1


class UntilPod(Struct, frozen=True, kw_only=True):
    """A pod on the Node is Ready. `label_selector` as in `kubectl get --selector`."""

    namespace: str
    label_selector: str


class UntilObject(Struct, frozen=True, kw_only=True):
    """Values at `json_path` of an object: there is one, and each of them is `equals`, or one of `one_of`.

    Without both, any value is sufficient. `name` "": the name of the Node.
    """

    version: str
    resource: str
    json_path: str
    equals: str = ""
    one_of: tuple[str, ...] = ()
    group: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def allowed(self) -> tuple[str, ...]:
        """The values that satisfy it; empty: any."""
        return self.one_of or ((self.equals,) if self.equals else ())


class Until(Struct, frozen=True, kw_only=True):
    """Exactly one of these."""

    condition: UntilCondition | None = None
    resource: UntilResource | None = None
    devices: UntilDevices | None = None
    pod: UntilPod | None = None
    object: UntilObject | None = None


class ReadinessRule(Struct, frozen=True, kw_only=True):
    """`on_timeout`: what happens `timeout_seconds` after the Node was registered."""

    taint: Taint
    until: Until
    timeout_seconds: int = msgspec.field(default=TIMEOUT_DEFAULT)
    on_timeout: str = "Keep"


class SelectedReadinessRule(ReadinessRule, frozen=True, kw_only=True):
    """A rule of the settings, for the NodeClaims with all these labels and their Nodes with all these labels."""

    claim_selector: Mapping[str, str] = EMPTY
    node_selector: Mapping[str, str] = EMPTY

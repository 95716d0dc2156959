"""What one NodePool cannot launch although it is available to others."""

from typing import Any

import msgspec
import pytest

from cloudprovider.interface import Offering
from controllers.model.offering_scope import LaunchTemplate, offering_scope
from controllers.provisioning.launch_templates import of_claim, of_pool
from controllers.provisioning.launchable import launchable
from controllers.provisioning.solver.solver import solve
from provisioner.api.nodeclass import AgentPoolNodeClass

from .observed import CLOUD, T4, TOLERATES, TYPES, claim, node_pool, observe, pod

REQUEST = Offering(size=T4)
ALONE = LaunchTemplate("t", "")


def node_class(**spec: Any) -> AgentPoolNodeClass:
    return msgspec.convert({"metadata": {"name": "default", "uid": "u"}, "spec": spec}, AgentPoolNodeClass)


def available(found: Any, size: str) -> set[str]:
    return {one.capacity_type for kind in found if kind.name == size for one in kind.offerings if one.available}


def test_nothing_is_refused() -> None:
    """The types stay as they are, whatever the settings of the node class that no machine contradicts."""
    assert launchable(TYPES.types, None, (), CLOUD) is None
    assert launchable(TYPES.types, node_class(), (), CLOUD) is None
    assert launchable(TYPES.types, node_class(maxPods=50), (), CLOUD) == TYPES.types


@pytest.mark.parametrize(("scope", "left"), [("size", {"spot"}), ("request", set())])
def test_what_is_refused(scope: Any, left: set[str]) -> None:
    """The size with its capacity type, or every request of this launch template; the cause names the size."""
    found = launchable(TYPES.types, None, [(offering_scope(REQUEST, scope, ALONE, refused=True), "by a policy")], CLOUD)
    assert found is not None
    assert available(found, T4) == left
    assert bool(available(found, "Standard_NC24ads_A100_v4")) is (scope == "size")
    (cause,) = {one.cause for kind in found if kind.name == T4 for one in kind.offerings if not one.available}
    assert cause == f"{T4}: by a policy"


def test_what_the_node_class_contradicts() -> None:
    """A capacity reservation has no spot machines."""
    found = launchable(TYPES.types, node_class(capacityReservationGroupID="/subscriptions/s/g"), (), CLOUD)
    assert found is not None
    assert available(found, T4) == {"on-demand"}


def test_only_the_refused_nodepool_is_concerned() -> None:
    """The heavier NodePool can launch nothing, so that the machine is bought from the other one; the pod has the cause
    if there is none.
    """
    everything = [(offering_scope(REQUEST, "request", ALONE, refused=True), "by a policy")]
    pools = (node_pool("first", weight=10), node_pool("second"))
    pods = (pod("p", tolerations=TOLERATES),)
    found = observe(pods=pods, node_pools=pools, refused={"first": everything})
    assert [one.node_pool for one in solve(found.snapshot).machines] == ["second"]
    found = observe(pods=pods, node_pools=pools[:1], refused={"first": everything})
    assert "by a policy" in solve(found.snapshot).errors["default/p"]


def test_launch_templates() -> None:
    """The claims of a NodePool share one until the template or the node class changes; another claim has its own."""
    owned: dict[str, Any] = {
        "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "gpu", "uid": "u"}]
    }
    plain, more = node_class(), node_class(maxPods=50)
    assert of_claim(claim("a", **owned), plain) == of_claim(claim("b", **owned), plain)
    assert of_claim(claim("a", **owned), plain) != of_claim(claim("a", **owned), more)
    assert of_claim(claim("a"), plain) != of_claim(claim("b"), plain)
    assert of_claim(claim("a"), None) != of_claim(claim("a", annotations={"x": "y"}), None)
    assert of_pool(node_pool(), plain) != of_pool(node_pool(), more)
    changed = node_pool()
    spec = msgspec.structs.replace(changed.spec.template.spec, expire_after="1h")
    template = msgspec.structs.replace(changed.spec.template, spec=spec)
    changed = msgspec.structs.replace(changed, spec=msgspec.structs.replace(changed.spec, template=template))
    assert of_pool(changed, plain) != of_pool(node_pool(), plain)

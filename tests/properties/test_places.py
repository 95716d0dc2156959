"""Places that decisions give to pods of drawn scenarios, judged by predicates that share no code with the solver.

`make test-oracle` compares many more of them with Karpenter.
"""

import msgspec
import pytest

from cloudprovider.azure.cloud import AksCloud
from controllers.provisioning.solver.solver import solve
from provisioner.cli.commands.schedule_codec import Scenario, output, snapshot, types_of
from tests.oracle.scenarios import draw
from tests.oracle.validity import violations

TOPOLOGY = {
    "affinity-to-other-apps",
    "inclusion-policies",
    "match-label-keys",
    "min-domains",
    "namespaces",
    "terminating-pods",
    "topology",
}
# Scenarios of spot machines do not state the taint of their Nodes.
LEFT_OUT = {"spot"}


def seeds(count: int) -> list[int]:
    """The first seeds whose scenario has topology constraints."""
    found, seed = list[int](), 0
    while len(found) < count:
        seed += 1
        features = draw(seed).features
        if features & TOPOLOGY and not features & LEFT_OUT:
            found.append(seed)
    return found


@pytest.mark.parametrize("seed", seeds(80))
def test_kube_scheduler_binds_each_pod_where_it_has_a_place(seed: int) -> None:
    """Whatever size and zone the NodeClaims turn out to have, an order exists in which all pods are bound."""
    scenario = draw(seed).scenario
    stated = msgspec.convert(scenario, Scenario)
    found = snapshot(stated, types_of(stated, AksCloud()))
    decision = msgspec.to_builtins(output(found.snapshot, solve(found.snapshot), found.errors, 0))
    assert violations(scenario, decision, seed) == []

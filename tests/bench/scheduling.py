"""From a pending pod to its NodeClaim, and many pods at once until all are bound, on a real API server.

The real kube-scheduler rejects and binds the pods. Agent pools and machines are ready at once, so that the times are
those of the controller, of kube-scheduler and of the API server.

The figures of Karpenter were measured with machines that are ready at once, too.
"""

from collections.abc import Iterable
from datetime import datetime

from provisioner.simulator.azure.settings import AzureSettings
from tests.cluster.controlplane import ControlPlane
from tests.cluster.scheduler import kube_scheduler

from .apiserver import CONTROLLER, Call, Environment, environment
from .figures import Figure, latency
from .stage import CLAIMS, MOST_POOLS
from .workloads import gpu_pod, node_class, node_pool

SINGLE, BURST = 8, 50
INSTANT = AzureSettings(
    throttle=False, max_agent_pools=MOST_POOLS, create_seconds=(0.0, 0.0), delete_seconds=(0.0, 0.0)
)
PLURAL = CLAIMS.partition(".")[0]
BOUND_SECONDS = 60.0
# Before anything is created a LIST shows that the cache has all NodeClaims; a decision that buys nothing needs none.
LISTS_MOST = 3


async def measure(cp: ControlPlane) -> list[Figure]:
    """About 40 s."""
    async with environment(cp, INSTANT, instant=True) as env, kube_scheduler(cp), env.controller():
        await env.apply("agentpoolnodeclasses.gpu-provisioner.sh", node_class())
        await env.apply("nodepools.karpenter.sh", node_pool())
        found = [await _single(env), *await _burst(env)]
    await cp.wipe()
    return found


async def _single(env: Environment) -> Figure:
    names = [f"single-{number}" for number in range(SINGLE)]
    env.begin()
    for name in names:
        await env.apply("pods", gpu_pod(name))
        await _bound(env, [name])
    calls = env.calls()
    pods, claims = _at(calls, "create", "pods"), _at(calls, "create", PLURAL)
    took = [(later - earlier).total_seconds() for earlier, later in zip(pods, claims, strict=True)]
    return latency("pod created → NodeClaim (Karpenter: 1.10 to 1.15)", took, predecessor="-", target=(1.1,))


async def _burst(env: Environment) -> list[Figure]:
    names = [f"burst-{number}" for number in range(BURST)]
    env.begin()
    await env.apply("pods", *map(gpu_pod, names))
    await _bound(env, names)
    calls = env.calls()
    first = min(_at(calls, "create", "pods"))
    claims, bound = _at(calls, "create", PLURAL), _at(calls, "create", "pods/binding")
    lists = [call for call in calls if (call.user, call.verb, call.kind) == (CONTROLLER, "list", PLURAL)]
    puts = sorted(at for (verb, _), at in env.requested.items() if verb == "PUT" and at >= first)
    nodes = _at(calls, "create", "nodes")
    steps = {
        "pods created": _at(calls, "create", "pods"),
        "first and last claim": claims[:1] + claims[-1:],
        "last PUT": puts,
        "last Node": nodes,
        "first and last binding": bound[:1] + bound[-1:],
    }
    return [
        Figure(
            name=f"{BURST} pods of one GPU: all bound, machines ready at once (Karpenter: 3.9)",
            unit="s",
            labels=("",),
            target=(3.9,),
            measured=((max(bound) - first).total_seconds(),),
            note=", ".join(f"{what} {_since(first, moments)}" for what, moments in steps.items()),
        ),
        Figure(
            name=f"NodeClaims, agent pools and LISTs of NodeClaims for {BURST} pods",
            unit="requests",
            labels=("create", "PUT", "LIST"),
            target=(BURST, BURST, LISTS_MOST),
            measured=(len(claims), len(puts), len(lists)),
            asserted=True,
        ),
    ]


async def _bound(env: Environment, names: list[str]) -> None:
    await env.until(lambda: env.bound >= {*names}, BOUND_SECONDS, "all are bound")


def _at(calls: Iterable[Call], verb: str, kind: str) -> list[datetime]:
    """The moments of the successful requests, in order."""
    return sorted(call.at for call in calls if (call.verb, call.kind, call.status) == (verb, kind, 201))


def _since(first: datetime, moments: list[datetime]) -> str:
    shown = moments if len(moments) == 2 else moments[-1:]
    return " and ".join(f"{(moment - first).total_seconds():.2f}" for moment in shown)

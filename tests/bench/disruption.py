"""An emptied fleet until it is gone, and a drifted one until it is replaced, on a real API server.

The real kube-scheduler places the pods. Agent pools and machines are ready, and gone, at once, so that the times are
those of the controller and of the API server. Karpenter's figure was measured with such machines (kwok), too.
"""

import asyncio
from collections import Counter
from datetime import datetime

from tests.cluster.controlplane import ControlPlane
from tests.cluster.scheduler import kube_scheduler

from .apiserver import CONTROLLER, FIXED_KINDS, Call, Environment, environment
from .figures import Figure
from .scheduling import INSTANT, PLURAL
from .stage import AGE_SECONDS, CLAIMS
from .workloads import Json, gpu_pod, node_class, node_pool

MACHINES, REPLICAS = 10, 5
SIZE = "Standard_NC4as_T4_v3"
WAIT_SECONDS = 120.0
GONE_SECONDS = 25.0
# Twice a life, the drift, the dry run of the deletion, the marks and a read of them, and their Events.
CALLS_MOST, ARM_CALLS_MOST = 36, 4


async def measure(cp: ControlPlane) -> list[Figure]:
    """About four minutes."""
    async with environment(cp, INSTANT, instant=True) as env, kube_scheduler(cp), env.controller():
        await env.apply("agentpoolnodeclasses.gpu-provisioner.sh", node_class())
        found = await _emptied(env)
    await cp.wipe()
    async with environment(cp, INSTANT, instant=True) as env, env.controller():
        await env.apply("agentpoolnodeclasses.gpu-provisioner.sh", node_class())
        found += await _drifted(env)
    await cp.wipe()
    return found


async def _emptied(env: Environment) -> list[Figure]:
    await env.apply("nodepools.karpenter.sh", _pool("5s"))
    pods = [f"emptied-{number}" for number in range(MACHINES)]
    await env.apply("pods", *map(gpu_pod, pods))
    await env.until(lambda: env.bound >= {*pods} and len(env.ready) == MACHINES, WAIT_SECONDS, "all are bound")
    await asyncio.sleep(AGE_SECONDS)
    env.begin()
    await env.remove("pods", *pods)
    await env.until(lambda: env.gone >= env.ready, WAIT_SECONDS, "all machines are gone")
    calls = env.calls()
    deleted = _of(calls, "delete", "pods", 200)
    claims, gone = _of(calls, "delete", PLURAL, 200), _of(calls, "patch", PLURAL, 200)
    seconds = [(moment - min(deleted)).total_seconds() for moment in (min(claims), max(claims), max(gone))]
    arm = Counter(env.arm_calls)
    return [
        Figure(
            name=f"{MACHINES} machines emptied, consolidateAfter 5 s: all gone (Karpenter: 30.2)",
            unit="s",
            labels=("",),
            target=(GONE_SECONDS,),
            measured=(seconds[-1],),
            note=f"first and last NodeClaim deleted after {seconds[0]:.1f} and {seconds[1]:.1f}",
        ),
        Figure(
            name=f"NodeClaims created and deleted, PUTs and DELETEs of agent pools, {MACHINES} machines emptied",
            unit="requests",
            labels=("create", "delete", "PUT", "DELETE"),
            target=(0, MACHINES, 0, MACHINES),
            measured=(len(_of(calls, "create", PLURAL, 201)), len(claims), arm["PUT"], arm["DELETE"]),
            asserted=True,
        ),
    ]


async def _drifted(env: Environment) -> list[Figure]:
    await env.apply("nodepools.karpenter.sh", _pool("Never", replicas=REPLICAS))
    await env.until(lambda: len(env.ready) == REPLICAS, WAIT_SECONDS, "all are Ready")
    await asyncio.sleep(AGE_SECONDS)
    old, drifted = {*env.ready}, dict[str, datetime]()

    def note(_: str, resource: str, obj: Json, __: Json | None) -> None:
        conditions = (obj.get("status") or {}).get("conditions") or () if resource == CLAIMS else ()
        if any((one["type"], one["status"]) == ("Drifted", "True") for one in conditions):
            drifted.setdefault(obj["metadata"]["name"], env.now())

    env.store.subscribe(note)
    env.begin()
    change = {"spec": {"template": {"metadata": {"labels": {"team": "other"}}}}}
    env.store.patch("nodepools.karpenter.sh", "gpu", change)
    began = env.now()
    await env.until(lambda: env.gone >= old and len(env.ready - old) >= REPLICAS, WAIT_SECONDS, "all are replaced")
    took = (env.now() - began).total_seconds()
    calls = [call for call in env.calls() if call.user == CONTROLLER and call.kind not in FIXED_KINDS]
    kinds = Counter(f"{call.verb} {call.kind}" for call in calls)
    puts = sorted(at for (verb, _), at in env.requested.items() if verb == "PUT" and at >= began)
    arm = Counter(env.arm_calls)
    return [
        Figure(
            name="Drifted → new machine requested, the others after the first that works",
            unit="s",
            labels=("first", "last"),
            measured=tuple((at - min(drifted.values())).total_seconds() for at in (puts[0], puts[-1])),
            note=f"{REPLICAS} machines of a static NodePool replaced in {took:.1f} s, ready at once",
        ),
        Figure(
            name="Kubernetes calls a replaced machine, Events included; ARM calls with its share of the LISTs",
            unit="calls",
            labels=("Kubernetes", "ARM"),
            target=(CALLS_MOST, ARM_CALLS_MOST),
            measured=(len(calls) / REPLICAS, sum(arm.values()) / REPLICAS),
            asserted=True,
            note=", ".join(f"{what} {count / REPLICAS:.1f}" for what, count in (kinds + arm).most_common()),
        ),
        Figure(
            name=f"PUTs and DELETEs of agent pools, {REPLICAS} machines replaced",
            unit="requests",
            labels=("PUT", "DELETE"),
            target=(REPLICAS, REPLICAS),
            measured=(arm["PUT"], arm["DELETE"]),
            asserted=True,
        ),
    ]


def _pool(after: str, **spec: object) -> Json:
    disruption = {"consolidateAfter": after, "budgets": [{"nodes": "100%"}]}
    pool = node_pool(disruption=disruption, **spec)
    pool["spec"]["template"]["spec"]["requirements"] = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [SIZE]}
    ]
    return pool


def _of(calls: list[Call], verb: str, kind: str, status: int) -> list[datetime]:
    """The moments of these requests."""
    return [call.at for call in calls if (call.verb, call.kind, call.status) == (verb, kind, status)]

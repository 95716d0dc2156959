"""Groups of NodePools, workloads and facts that only together meet a rule: each is added to few plans.

Each group has NodePools of its own, whose machines no other pods use, and instance types that no other part of a plan
has, so that what Azure refuses for good concerns this group only. Groups are drawn last and apart from each other: a
new one does not change what seeds have drawn for the others.

The parts of `Plan.facts` that are made here: `refused` (instance types, each with how Azure refuses it, from the
beginning to the end), `daemon_requests` (what admission adds to daemon pods), `system_taint` (the key of a taint of the
Nodes that AKS has from the beginning), `protected` (NodeClaims whose deletion an admission policy refuses until
everything is removed), and `volumes` (PersistentVolumeClaims, each with the `zone` of its disk, and whether it is
`bound` to it).
"""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from provisioner.api import labels
from tests.world.demand import TOLERATION

from . import bounded_groups, gpu_groups, limit_groups, room_groups
from .constraints import in_zones, requires
from .plan import Claim, Event, NodePool, Plan, Stage, Workload

Group = Callable[[Random, Plan], Plan]
# Of plans, those that have one group.
CHANCE = 0.06
T4_8, T4_16, T4_64 = "Standard_NC8as_T4_v3", "Standard_NC16as_T4_v3", "Standard_NC64as_T4_v3"
A100_2, A100_4 = "Standard_NC48ads_A100_v4", "Standard_NC96ads_A100_v4"
ANY = [TOLERATION, {"key": labels.AKS_SPOT, "operator": "Exists"}]
REFUSALS = ("invalid", "policy", "quota", "capacity")
# Each may need several machines one after the other.
LEAST_SECONDS = 3600.0
SMALL = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
INTRUDERS = frozenset({"burst-of-pods", "huge-grace", "do-not-disrupt"})
DRIFT_SECONDS = 1500.0
# The Nodes of AKS are a domain of their own.
OUTSIDE_ZONES = {"regional_zone": "0"}


def draw(seed: int, plan: Plan) -> Plan:
    """The plan with the group of this seed, if it has one; with a DRA driver, which has all GPUs, none."""
    name = chosen(seed)
    if not name or "dra" in plan.facts:
        return plan
    own = _random(seed, name)
    own.random()
    return GROUPS[name](own, plan)


def chosen(seed: int) -> str:
    """The name of the group that this seed draws: the first of those that it could have; "" if there is none."""
    return next((name for name in GROUPS if _random(seed, name).random() < CHANCE), "")


def _random(seed: int, name: str) -> Random:
    return Random(f"swarm/{seed}/group/{name}")


def _with(plan: Plan, *parts: Any, **facts: Any) -> Plan:
    """The plan with these parts, and with these facts."""
    found: dict[str, Any] = {}
    for kind, name in ((NodePool, "node_pools"), (Workload, "workloads"), (Claim, "claims"), (Event, "events")):
        found[name] = (*getattr(plan, name), *(one for one in parts if isinstance(one, kind)))
    found["events"] = tuple(sorted(found["events"], key=lambda one: one.at))
    sizes = {size for one in found["node_pools"] for size in one.sizes}
    held = {**plan.facts, "absent": [one for one in plan.facts.get("absent", ()) if one not in sizes]}
    for name, value in facts.items():
        held[name] = {**held.get(name, {}), **value} if isinstance(value, dict) else value
    return replace(plan, **found, facts={name: value for name, value in held.items() if value or name != "absent"})


def _at(rng: Random, plan: Plan, share: float = 0.5) -> float:
    return round(rng.uniform(0.0, plan.faults_seconds * share), 1)


def _near(selected: str, key: str = labels.HOSTNAME) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"group": selected}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _requesting(**amounts: str) -> dict[str, Any]:
    requests = {**SMALL, **amounts}
    resources = {"requests": requests, "limits": requests}
    return {"containers": [{"name": "main", "image": "trainer", "resources": resources}]}


def same_machine(rng: Random, plan: Plan) -> Plan:
    """Pods that must share a machine: a group that fits on one, a larger one, and a chain of followers."""
    if "tight" in plan.facts.get("admission", {}) or any(one.fault in INTRUDERS for one in plan.events):
        return plan  # the place of a pod that follows others must not be taken
    kind, at = rng.choice(("follower", "group", "shapes", "too-large", "chain")), _at(rng, plan)
    node_pool = NodePool(name="near", sizes=(T4_8, T4_64) if kind != "too-large" else (T4_64,), after="5m")

    def one(name: str, group: str, follows: str = "", count: int = 1, waits: int = 0, **amounts: str) -> Workload:
        spec = {**_requesting(**amounts), **(_near(follows) if follows else {})}
        return Workload(
            at=at, name=name, node_pool="near", count=count, labels={"group": group}, spec=spec, waits=waits
        )

    found = {
        "follower": [one("worker", "worker", "server"), one("server", "server")],
        "group": [one("group", "group", "group", rng.randint(2, 4))],
        "shapes": [one("launcher", "shapes", "shapes"), one("shape", "shapes", "shapes", cpu="2")],
        "too-large": [one("large", "large", "large", 4 + (more := rng.randint(1, 3)), more)],
        "chain": [one("a", "ui", "cache"), one("b", "cache", "web"), one("c", "web", "db"), one("d", "db")],
    }
    return _with(plan, node_pool, *found[kind])


def refused(rng: Random, plan: Plan) -> Plan:
    """Azure refuses one size of a NodePool for good; its pods run on another one, or on those of another NodePool."""
    at = _at(rng, plan)
    kind = rng.choice(("size", "node-pool", "claim", "static", "reservation"))
    # What is invalid concerns a whole NodePool.
    how = rng.choice(REFUSALS if kind in ("node-pool", "static") else REFUSALS[1:])
    spec = {"nodeSelector": {}, "tolerations": ANY, **_of_size(T4_8, A100_2)}
    pods = Workload(at=at, name="any", node_pool="other", count=rng.randint(1, 2), spec=spec)
    other = NodePool(name="other", sizes=(A100_2,))
    if kind == "size":
        both = replace(other, sizes=(T4_8, A100_2))
        return _with(plan, both, replace(pods, spec={}), refused={T4_8: how})
    if kind == "node-pool":
        heavy = NodePool(name="heavy", sizes=(T4_8,), weight=10)
        return _with(plan, heavy, other, pods, refused={T4_8: how})
    if kind == "claim":
        return _with(plan, other, replace(pods, at=at + 600.0), Claim(at=at, name="ws", size=T4_8), refused={T4_8: how})
    if kind == "static":
        static = NodePool(name="static", sizes=(T4_8,), replicas=1)
        return _with(plan, static, other, replace(pods, at=max(at, 900.0)), refused={T4_8: how})
    group = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/c"
    reserved = replace(other, capacity=("on-demand", "spot"), node_class={"capacityReservationGroupID": group})
    return _with(plan, reserved, replace(pods, spec={"tolerations": ANY}))


def corrected(rng: Random, plan: Plan) -> Plan:
    """A NodePool of a size that Azure refuses for good, which a user corrects; or one whose next sizes are sold out."""
    if plan.faults_seconds < LEAST_SECONDS:
        plan = replace(plan, faults_seconds=LEAST_SECONDS)
    how, until = rng.choice(REFUSALS), round(rng.uniform(DRIFT_SECONDS, LEAST_SECONDS - 900.0), 1)
    kind = rng.choice(("static", "dynamic", "later-sizes", "nobody", "idle-beside"))
    if kind == "static":
        one = NodePool(name="corrected", sizes=(A100_2,), replicas=1, budget="1")
        return _with(plan, replace(one, stages=(Stage(until=until, sizes=(T4_8,)),)), refused={T4_8: how})
    one = NodePool(name="corrected", sizes=(A100_2,), after="Never")
    pods = Workload(at=1.0, name="waiting", node_pool="corrected")
    if kind == "dynamic":
        return _with(plan, replace(one, stages=(Stage(until=until, sizes=(T4_8,)),)), pods, refused={T4_8: how})
    if kind == "later-sizes":
        sold = dict.fromkeys((T4_8, T4_16), "slow-capacity")
        stages = (Stage(until=until, sizes=(A100_2,)),)
        one = replace(one, sizes=(T4_8, T4_16, T4_64), replicas=1, budget="1", stages=stages)
        return _with(plan, one, refused=sold)
    if kind == "nobody":
        pods = replace(pods, gone_at=until)
        return _with(plan, replace(one, sizes=(T4_8,)), pods, refused={T4_8: "capacity"})
    first = Workload(at=1.0, name="leaves", node_pool="corrected", gone_at=until, spec=_of_size(A100_2))
    pods = replace(pods, waits=1, spec=_of_size(T4_8))
    return _with(plan, replace(one, sizes=(T4_8, A100_2), after="1m"), first, pods, refused={T4_8: "capacity"})


def _of_size(*sizes: str) -> dict[str, Any]:
    return {"affinity": requires({"key": labels.INSTANCE_TYPE, "operator": "In", "values": [*sizes]})}


def min_values(rng: Random, plan: Plan) -> Plan:
    """NodePools that must keep several sizes open for each NodeClaim, beside one that need not, or with small pods."""
    at = _at(rng, plan)
    if rng.random() < 0.5:
        heavy = NodePool(name="heavy-min", sizes=(T4_8, T4_16, T4_64), min_values=2, weight=10)
        spec = {
            **_requesting(**{"nvidia.com/gpu": "4"}),
            "nodeSelector": {},
            "affinity": requires({"key": "karpenter.sh/nodepool", "operator": "In", "values": ["heavy-min", "light"]}),
        }
        light = NodePool(name="light", sizes=(T4_64,))
        return _with(plan, heavy, light, Workload(at=at, name="four", node_pool="light", spec=spec))
    few = NodePool(name="few", sizes=(T4_16, T4_64), min_values=2)
    return _with(plan, few, Workload(at=at, name="small", node_pool="few", count=4, spec=_requesting()))


def labelled(rng: Random, plan: Plan) -> Plan:
    """Labels and sizes as users write them: of spot, in another case, of a Node by name, and one that is reserved."""
    at, kind = _at(rng, plan), rng.choice(("spot", "case", "name", "restricted"))
    node_pool = NodePool(name="labelled", sizes=(T4_8,))
    pods = Workload(at=at, name="labelled", node_pool="labelled")
    if kind == "spot":
        spec = {"nodeSelector": {labels.AKS_SPOT: "spot"}, "tolerations": ANY}
        return _with(plan, replace(node_pool, capacity=("spot",)), replace(pods, spec=spec))
    if kind == "case":
        return _with(plan, replace(node_pool, sizes=(T4_8.lower(),)), pods)
    if kind == "name":
        fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
        preferred = [{"weight": 1, "preference": {"matchFields": fields}}]
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        return _with(plan, node_pool, replace(pods, spec={"affinity": affinity}))
    own = {"node-restriction.kubernetes.io/team": "a"}
    return _with(plan, replace(node_pool, labels=own), replace(pods, spec={"nodeSelector": own}, waits=1))


def namespaces(rng: Random, plan: Plan) -> Plan:
    """Pods that are alike in two namespaces, one of which has a pod that is alone on its machine."""
    at, kind = _at(rng, plan, 0.3), rng.choice(("alike", "selector"))
    node_pool = NodePool(name="spaces", sizes=(T4_64,), after="Never")
    apart: dict[str, Any] = {"topologyKey": labels.HOSTNAME, "labelSelector": {}}
    if kind == "selector":
        apart = {"topologyKey": labels.ZONE, "labelSelector": {"matchLabels": {"group": "x"}}}
        apart["namespaceSelector"] = {"matchLabels": {"team": "tenant"}}
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}}
    alone = Workload(at=at, name="alone", node_pool="spaces", namespace="tenant", labels={"group": "x"}, spec=spec)
    if kind == "alike":
        alike = replace(alone, at=at + 900.0, labels={"app": "alike"}, spec={})
        others = (replace(alike, name=name, namespace=name) for name in ("default", "tenant"))
        return _with(plan, node_pool, alone, *others)
    if plan.facts.get("zones") is False:
        return plan
    others = (
        Workload(at=at, name=f"zone{n}", node_pool="spaces", labels={"group": "x"}, spec=in_zones(n)) for n in (1, 2, 3)
    )
    return _with(plan, node_pool, *others, replace(alone, at=at + 900.0))


def _beside_workspaces() -> dict[str, Any]:
    return {"affinity": requires({"key": labels.KAITO_WORKSPACE, "operator": "DoesNotExist"})}


def spread(rng: Random, plan: Plan) -> Plan:
    """Pods that spread over zones, beside pods with their labels that do not count: on other Nodes, or terminating."""
    if plan.facts.get("zones") is False or "location" in plan.facts.get("azure", {}):
        return plan
    at, kind = _at(rng, plan, 0.3), rng.choice(("other-nodes", "terminating"))
    over: dict[str, Any] = {"maxSkew": 1, "topologyKey": labels.ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    over["labelSelector"] = {"matchLabels": {"group": "spread"}}
    of: dict[str, Any] = {"labels": {"group": "spread"}}
    node_pool = NodePool(name="spread", sizes=(T4_8,), after="Never")
    pods = Workload(
        at=at + 1200.0, name="over", node_pool="spread", count=3, spec={"topologySpreadConstraints": [over]}, **of
    )
    if kind == "other-nodes":
        running = Workload(at=at, name="beside", node_pool="beside", count=4, spec=in_zones(1), **of)
        return _with(plan, node_pool, NodePool(name="beside", sizes=(T4_64,), after="Never"), running, pods)
    old = Workload(at=at, name="old", node_pool="spread", count=2, lingers=3600.0, spec=in_zones(1), **of)
    return _with(plan, node_pool, replace(old, gone_at=at + 1190.0), pods)


def schedule(rng: Random, plan: Plan) -> Plan:
    """A NodePool that a schedule keeps from being disrupted: it is Sunday, the first of the month, at noon."""
    days = rng.choice(("*/2 * mon-fri", "*/2 * 1-5", "1 * mon", "* * sun", "1-7 * *"))
    window = {"nodes": "0", "schedule": f"0 8 {days}", "duration": "12h"}
    node_pool = NodePool(name="window", sizes=(T4_8,), after="30s", budget="100%", budgets=(window,))
    at = _at(rng, plan, 0.2)
    pods = Workload(at=at, name="window", node_pool="window", gone_at=round(plan.faults_seconds * 0.8, 1))
    return _with(plan, node_pool, pods)


def few_pods(rng: Random, plan: Plan) -> Plan:
    """A node class whose machines have room for ten pods, as many as there are DaemonSets."""
    daemons = [{"name": f"tiny{number}", "at": 0.0, "requests": {"cpu": "1m"}} for number in range(10)]
    known = plan.facts.get("daemon_sets", [])
    node_pool = NodePool(name="few-pods", sizes=(T4_8,), node_class={"maxPods": 10})
    pods = Workload(at=max(_at(rng, plan), 30.0), name="full", node_pool="few-pods", waits=1)
    return _with(plan, node_pool, pods, daemon_sets=[*known, *daemons])


def daemon_pods(rng: Random, plan: Plan) -> Plan:
    """Admission gives daemon pods requests that their template lacks; pods nearly fill a machine."""
    amount = rng.choice((500, 1000))
    daemons = [*plan.facts.get("daemon_sets", ()), {"name": "limited", "at": 0.0, "requests": {}}]
    node_pool = NodePool(name="limited", sizes=(T4_8, T4_16), after=rng.choice(("30s", "Never")))
    spec = _requesting(cpu=f"{7500 - rng.randint(0, 200)}m")
    pods = Workload(at=_at(rng, plan), name="fills", node_pool="limited", spec=spec)
    return _with(plan, node_pool, pods, daemon_sets=daemons, daemon_requests={"limited": {"cpu": f"{amount}m"}})


def protected(rng: Random, plan: Plan) -> Plan:
    """An admission policy refuses to delete one NodeClaim; other empty or drifted machines go."""
    at = round(rng.uniform(DRIFT_SECONDS, LEAST_SECONDS - 900.0), 1)
    plan = replace(plan, faults_seconds=max(plan.faults_seconds, LEAST_SECONDS))
    if rng.random() < 0.5:
        node_pool = NodePool(name="kept", sizes=(T4_8,), policy="WhenEmpty", budget="100%")
        pods = Workload(at=1.0, name="kept", node_pool="kept", count=3, gone_at=at)
        return _with(plan, node_pool, pods, protected=["kept-1"])
    found = []
    for name, until in (("kept", at - 600.0), ("second", at + 600.0)):
        stages = (Stage(until=until, sizes=(T4_8,)),)
        found.append(NodePool(name=name, sizes=(T4_16,), replicas=1, budget="1", after="Never", stages=stages))
    return _with(plan, *found, protected=["kept-1"])


def orphaned(rng: Random, plan: Plan) -> Plan:
    """A NodePool is deleted with --cascade=orphan, or NodePools are disabled, just after its machine has drifted."""
    until = round(rng.uniform(DRIFT_SECONDS, LEAST_SECONDS - 900.0), 1)
    plan = replace(plan, faults_seconds=max(plan.faults_seconds, LEAST_SECONDS))
    stages = (Stage(until=until, sizes=(T4_8,)),)
    node_pool = NodePool(name="orphan", sizes=(T4_16,), replicas=1, budget="1", after="Never", stages=stages)
    fault = rng.choice(("node-pool-orphaned", "node-pools-disabled"))
    pick = (len(plan.node_pools) + 0.5) / (len(plan.node_pools) + 1)
    at = until + rng.choice((30.0, 60.0, 120.0))
    seconds = plan.faults_seconds - at if fault == "node-pool-orphaned" else 700.0
    return _with(plan, node_pool, Event(at=at, fault=fault, pick=pick, seconds=seconds))


def kept_replacement(rng: Random, plan: Plan) -> Plan:
    """Of several replacements one can be had; then a user undoes what made the machine drift."""
    plan = replace(plan, faults_seconds=max(plan.faults_seconds, 2 * LEAST_SECONDS))
    until = round(rng.uniform(DRIFT_SECONDS, 2400.0), 1)
    stages = (Stage(until=until, sizes=(T4_64,)), Stage(until=until + 3600.0, sizes=(T4_8,)))
    node_pool = NodePool(name="undone", sizes=(T4_64, T4_8), budget="100%", policy="WhenEmpty", stages=stages)
    pods = (Workload(at=1.0, name=f"u{number}", node_pool="undone") for number in range(3))
    return _with(plan, node_pool, *pods, refused={T4_8: "all-but-one"})


def scaled_down(rng: Random, plan: Plan) -> Plan:
    """A static NodePool is scaled down to the machine on which a training must not be disrupted."""
    plan = replace(plan, faults_seconds=max(plan.faults_seconds, LEAST_SECONDS))
    until = round(rng.uniform(DRIFT_SECONDS, LEAST_SECONDS - 900.0), 1)
    stages = (Stage(until=until, replicas=2),)
    node_pool = NodePool(name="scaled", sizes=(T4_8,), replicas=1, budget="100%", after="Never", stages=stages)
    web = Workload(at=1.0, name="web", node_pool="scaled", gone_at=until + 300.0)
    notes = {labels.DO_NOT_DISRUPT: "true"}
    train = replace(web, name="train", kind="Job", at=until - 600.0, gone_at=0.0, annotations=notes)
    return _with(plan, node_pool, web, train)


def zones(rng: Random, plan: Plan) -> Plan:
    """Pods that spread over zones beside the Nodes of AKS, which are in none, or that follow others to their zone."""
    if plan.facts.get("zones") is False or "location" in plan.facts.get("azure", {}):
        return plan
    at, kind = _at(rng, plan), rng.choice(("beside-system", "honor", "ignore", "follow"))
    node_pool = NodePool(name="zones", sizes=(T4_8,), after="5m")
    pods = Workload(at=at, name="zonal", node_pool="zones", count=6, labels={"group": "zonal"})
    if kind == "follow":
        server = Workload(at=at, name="zone-server", node_pool="zones", labels={"group": "server"})
        return _with(plan, node_pool, server, replace(pods, count=2, spec=_near("server", labels.ZONE)))
    over: dict[str, Any] = {"maxSkew": 1, "topologyKey": labels.ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    over["labelSelector"] = {"matchLabels": {"group": "zonal"}}
    if kind == "honor":
        over["nodeTaintsPolicy"] = "Honor"
        spec = {"nodeSelector": {}, "topologySpreadConstraints": [over], **_beside_workspaces()}
        pods = replace(pods, spec=spec)
        return _with(plan, node_pool, pods, system_taint="CriticalAddonsOnly", azure=OUTSIDE_ZONES)
    if kind == "ignore":
        # The Nodes of AKS are an empty domain, so that each other one may have one pod.
        ignoring = {"topologySpreadConstraints": [over | {"nodeAffinityPolicy": "Ignore"}], **in_zones(1, 2)}
        return _with(plan, node_pool, replace(pods, count=4, waits=2, spec=ignoring), azure=OUTSIDE_ZONES)
    return _with(plan, node_pool, replace(pods, spec={"nodeSelector": {}, "topologySpreadConstraints": [over]}))


def machine(rng: Random, plan: Plan) -> Plan:
    """Pods that nearly fill a machine, which has less than predicted; pods that do not tolerate its taint."""
    at, kind = _at(rng, plan), rng.choice(("smaller", "spot", "daemons", "many-pods", "labels"))
    node_pool = NodePool(name="machine", sizes=(T4_8, T4_16), after=rng.choice(("30s", "Never")))
    pods = Workload(at=max(at, 30.0), name="near-full", node_pool="machine")
    if kind == "spot":
        both = replace(node_pool, capacity=("spot", "on-demand"))
        return _with(plan, both, replace(pods, spec={"tolerations": [TOLERATION]}))
    if kind == "labels":
        of_aks = {"kubernetes.azure.com/mode": "user", "kubernetes.azure.com/os-sku": "Ubuntu"}
        own = {"karpenter.sh/nodepool": "machine", **of_aks}
        return _with(plan, node_pool, replace(pods, spec={"nodeSelector": own}))
    if kind == "many-pods":
        # A kubelet for 250 pods reserves 2,800 MiB more than one for 110.
        spec = _requesting(memory=f"{rng.randint(48_000, 49_000)}Mi")
        return _with(plan, replace(node_pool, node_class={"maxPods": 250}), replace(pods, spec=spec))
    if kind == "smaller":
        shares = {"": {"cpu": 0.97, "memory": 0.97, "ephemeral-storage": 0.97}}
        nodes = {**plan.facts.get("nodes", {}), "allocatable_shares": shares}
        return _with(plan, node_pool, replace(pods, spec=_requesting(cpu="7700m")), nodes=nodes)
    daemons = [*plan.facts.get("daemon_sets", ()), {"name": "of-aks", "at": 0.0, "requests": {"cpu": "600m"}}]
    return _with(plan, node_pool, replace(pods, spec=_requesting(cpu="7400m")), daemon_sets=daemons)


def half_empty(rng: Random, plan: Plan) -> Plan:
    """A small pod stays on a large machine that a large pod has left; its NodePool may consolidate it, or may not."""
    plan = replace(plan, faults_seconds=max(plan.faults_seconds, LEAST_SECONDS))
    policy = rng.choice(("WhenEmpty", "WhenEmpty", "WhenEmptyOrUnderutilized"))
    node_pool = NodePool(name="half", sizes=(T4_8, T4_64), budget="100%", policy=policy)
    until = round(rng.uniform(1200.0, DRIFT_SECONDS), 1)
    three = _requesting(**{"nvidia.com/gpu": "3"})
    large = Workload(at=1.0, name="half-large", node_pool="half", gone_at=until, spec=three)
    return _with(plan, node_pool, large, Workload(at=1.0, name="half-small", node_pool="half", spec=_requesting()))


def volumes(rng: Random, plan: Plan) -> Plan:
    """Pods with a disk of one zone that is not bound yet, or that they cannot reach or can because of their spread."""
    if plan.facts.get("zones") is False or "location" in plan.facts.get("azure", {}):
        return plan
    at, kind = _at(rng, plan, 0.3), rng.choice(("unbound", "skew", "min-domains"))
    node_pool = NodePool(name="volumes", sizes=(T4_8,))
    disks = {"data": {"zone": "westeurope-1", "bound": kind != "unbound"}}
    own = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    pods = Workload(at=at, name="disk", node_pool="volumes", labels={"group": "disk"}, spec=own, waits=1)
    if kind == "unbound":
        return _with(plan, node_pool, pods, volumes=disks)
    over: dict[str, Any] = {"maxSkew": 1, "topologyKey": labels.ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    over["labelSelector"] = {"matchLabels": {"group": "disk"}}
    if kind == "min-domains":
        over["minDomains"] = 3
    most = 3 if kind == "skew" else 1
    running = (
        replace(pods, name=f"beside{n}", count=most if n == 1 else 1, spec=in_zones(n), waits=0) for n in (1, 2, 3)
    )
    spread_too = {**own, "topologySpreadConstraints": [over]}
    return _with(
        plan,
        node_pool,
        *running,
        replace(pods, at=at + 1200.0, spec=spread_too, waits=int(kind == "skew")),
        volumes=disks,
    )


def rights(rng: Random, plan: Plan) -> Plan:
    """The controller may not read DaemonSets, and the device plugin of a machine that works is uninstalled."""
    at, seconds = 900.0 + _at(rng, plan, 0.1), round(rng.uniform(3000.0, 5400.0), 1)
    plan = replace(plan, faults_seconds=max(plan.faults_seconds, at + seconds))
    pods = Workload(at=1.0, name="trains", node_pool="rights")
    away = Event(at=at, fault="plugin-kept-away", seconds=seconds)
    hidden = Event(at=1.0, fault="daemon-sets-forbidden", seconds=round(plan.faults_seconds - 1.0, 1))
    return _with(plan, NodePool(name="rights", sizes=(T4_8,), after="Never"), pods, away, hidden)


GROUPS: dict[str, Group] = {
    one.__name__: one
    for one in (
        same_machine,
        refused,
        corrected,
        min_values,
        labelled,
        namespaces,
        spread,
        schedule,
        few_pods,
        daemon_pods,
        protected,
        orphaned,
        kept_replacement,
        scaled_down,
        zones,
        machine,
        volumes,
        rights,
    )
}
# A group that is added comes last, so that seeds keep those that they have.
GROUPS |= gpu_groups.GROUPS | {half_empty.__name__: half_empty} | limit_groups.GROUPS | room_groups.GROUPS
GROUPS |= bounded_groups.GROUPS

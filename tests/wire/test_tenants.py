"""`gpu-provisioner run` as a process, with objects of a tenant that once took all memory: it stays far below the limit.

The simulated API server is in the process of the test, so that the figure is that of the controller alone.
"""

from collections.abc import Callable

import pytest

from provisioner.api import labels
from tests.fuzz.limits import chart_limit_mib, peak_mib
from tests.stories import run_by
from tests.world.demand import node_class, node_pool, pod
from tests.world.harness import Json

from .site import CLAIMS, Site, run, run_story

pytestmark = pytest.mark.matrix(quick=4)

SKU = "karpenter.azure.com/sku-"
OF_SIZES = [
    labels.ZONE,
    labels.INSTANCE_TYPE,
    *(SKU + one for one in ("name", "family", "version", "cpu", "memory", "gpu-name", "gpu-count")),
]
TERMS = 1000
PORTS = 10_000
CHANGES = 100
Act = Callable[[Site], None]


def create(site: Site, *pods: Json) -> None:
    for one in pods:
        site.world.store.create("pods", one, "default")


def absent(name: str) -> Json:
    return {"matchExpressions": [{"key": name, "operator": "DoesNotExist"}]}


def spread_over_nine_labels(site: Site) -> None:
    """The product of the domains of all labels has millions of members."""
    selector = {"matchLabels": {"app": "x"}}
    constraints = [
        {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        for key in OF_SIZES
    ]
    made = pod("large", topologySpreadConstraints=constraints)
    made["metadata"]["labels"] = {"app": "x"}
    create(site, made)


def a_thousand_terms_of_each_kind(site: Site) -> None:
    """Each preferred term with each required one is a million sets of labels."""
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [absent(f"a{n}") for n in range(TERMS)]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": absent(f"b{n}")} for n in range(TERMS)
        ],
    }
    create(site, pod("large", affinity={"nodeAffinity": affinity}))


def ten_thousand_host_ports(site: Site) -> None:
    """Of each of six pods; no two are equal."""
    for number in range(6):
        made, first = pod(f"large-{number}"), 1 + number * PORTS
        ports = range(first, first + PORTS)
        made["spec"]["containers"][0]["ports"] = [{"containerPort": one, "hostPort": one} for one in ports]
        create(site, made)


def a_label_of_a_large_pod_changes(site: Site) -> None:
    """Its constraints have half a megabyte: what was read of former versions is dropped."""
    values = [f"value-{number:05}" for number in range(40_000)]
    term = {"matchExpressions": [{"key": "example.com/a", "operator": "NotIn", "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    create(site, pod("large", affinity={"nodeAffinity": required}))
    for number in range(CHANGES):
        site.world.store.patch("pods", "large", {"metadata": {"labels": {"change": str(number)}}}, "default")


def watches_pods(site: Site) -> bool:
    return any(call.verb == "WATCH" and call.target.kind == "pods" for call in site.world.audit_log.calls())


ACTS: tuple[Act, ...] = (
    spread_over_nine_labels,
    a_thousand_terms_of_each_kind,
    ten_thousand_host_ports,
    a_label_of_a_large_pod_changes,
)


@pytest.mark.parametrize("act", ACTS)
@run_by(run_story)
async def test_half_of_the_memory_of_the_chart_suffices(site: Site, act: Act) -> None:
    """The peak of resident memory stays below, and a pod of another tenant gets its machine."""
    store = site.world.store
    store.create("agentpoolnodeclasses.gpu-provisioner.sh", node_class())
    store.create("nodepools.karpenter.sh", node_pool("other"))
    async with run(site, "run", env=site.env()) as it:
        await site.until(lambda: watches_pods(site), "pods are watched")
        act(site)
        create(site, pod("good", nodeSelector={labels.NODEPOOL: "other"}))
        await site.until(
            lambda: site.world.store.list(CLAIMS, labels=f"{labels.NODEPOOL}=other"),
            "the machine of the other tenant",
        )
        assert peak_mib(it.process.pid) < chart_limit_mib() / 2

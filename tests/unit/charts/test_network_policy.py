"""The chart's NetworkPolicy permits every connection that the program makes and accepts, and no others.

No test has a network plugin: `network_policy` is a model of one. `tests/wire/test_connections.py` observes which
connections the program makes.
"""

from typing import Any
from urllib.parse import urlsplit

import pytest
from azure.identity._credentials.imds import IMDS_AUTHORITY

from provisioner.settings.clouds import CLOUDS

from .chart_values import NAMESPACE, NEEDED, named, pod_of, render
from .network_policy import PLUGINS, Connection, Json, Peer, Plugin, permitted

HTTPS = 443
OWN = {"kubernetes.io/metadata.name": NAMESPACE}
SYSTEM = {"kubernetes.io/metadata.name": "kube-system"}
MONITORING = {"kubernetes.io/metadata.name": "monitoring"}
NODE = Peer("10.224.0.4")
INTERNET = Peer("20.31.5.7", outside=True)
# AKS has the API server outside the cluster; with its integration into the virtual network in a subnet.
API_SERVERS = (Peer("20.103.8.9"), Peer("10.226.0.4"))
PROMETHEUS = Peer("10.244.1.7", pod={"app": "prometheus"}, namespace=MONITORING)
TENANT = Peer("10.244.1.9", pod={"app": "tenant"}, namespace={"kubernetes.io/metadata.name": "tenant"})
CORE_DNS = Peer("10.244.0.3", pod={"k8s-app": "kube-dns"}, namespace=SYSTEM)
# https://learn.microsoft.com/azure/aks/localdns-custom
LOCAL_DNS = Peer("169.254.10.11")
IMDS = urlsplit(IMDS_AUTHORITY)


def out(**values: Any) -> list[Connection]:
    """What the program connects to, with the addresses of every cloud."""
    https = [(urlsplit(url).port or HTTPS) for one in CLOUDS for url in (one.endpoint, one.authority)]
    found = [Connection("Egress", INTERNET, port) for port in https]
    found += [Connection("Egress", one, HTTPS) for one in API_SERVERS]
    found += [Connection("Egress", one, 53, how) for one in (CORE_DNS, LOCAL_DNS) for how in ("TCP", "UDP")]
    if values.get("deploymentMode") == "managed":
        found.append(Connection("Egress", metadata_service(), IMDS.port or 80))
    return found


def metadata_service() -> Peer:
    """The address of which DefaultAzureCredential requests tokens of a managed identity."""
    return Peer(str(IMDS.hostname), outside=True)


def container(objects: list[Json]) -> Json:
    (found,) = pod_of(objects)["spec"]["containers"]
    return found


def port_of(objects: list[Json], name: str | int) -> int:
    """The number of a port of the container."""
    ports = {one["name"]: one["containerPort"] for one in container(objects)["ports"]}
    return name if isinstance(name, int) else ports[name]


def into(objects: list[Json]) -> list[Connection]:
    """The kubelet's probes, as the Pod has them, and the scrapes, as the Service and the monitors have them."""
    probed = {one["httpGet"]["port"] for key, one in container(objects).items() if key.endswith("Probe")}
    scraped = {one["targetPort"] for one in named(objects, "Service")["spec"]["ports"]}
    scraped |= {one["port"] for one in named(objects, "PodMonitor")["spec"]["podMetricsEndpoints"]}
    found = [Connection("Ingress", NODE, port_of(objects, name)) for name in probed]
    return found + [Connection("Ingress", PROMETHEUS, port_of(objects, name)) for name in scraped]


def chart(**values: Any) -> list[Json]:
    return render({**NEEDED, "podMonitor": {"enabled": True}, **values})


def decide(objects: list[Json], wanted: Connection, plugin: Plugin, pod: Json | None = None) -> bool:
    labels = pod_of(objects)["metadata"]["labels"] if pod is None else pod
    return permitted([one for one in objects if one["kind"] == "NetworkPolicy"], labels, OWN, wanted, plugin)


PORTS = {"controller": {**NEEDED["controller"], "metrics": {"port": 9090}, "healthProbe": {"port": 9091}}}
VALUES: dict[str, Json] = {
    "defaults": {},
    "managed identity": {"deploymentMode": "managed"},
    "other ports": PORTS,
    "a monitored namespace": {"networkPolicy": {"metricsFrom": [{"namespaceSelector": {"matchLabels": MONITORING}}]}},
    "a long name": {"fullnameOverride": "a" * 60 + "-b"},
}


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_every_connection_of_the_program_is_permitted(values: Json, plugin: Plugin) -> None:
    """Those of the Pod of `helm test` too, which connects to the same."""
    objects = chart(**values)
    assert [one for one in (*out(**values), *into(objects)) if not decide(objects, one, plugin)] == []
    tested = named(objects, "Pod")["metadata"]["labels"]
    assert all(len(value) <= 63 for value in tested.values())
    assert [one for one in out(**values) if not decide(objects, one, plugin, tested)] == []


UNNEEDED = [
    Connection("Egress", INTERNET, 80),
    Connection("Egress", INTERNET, 22),
    Connection("Egress", INTERNET, 443, "UDP"),
    Connection("Egress", API_SERVERS[0], 6443),
    Connection("Egress", NODE, 10250),
    Connection("Egress", metadata_service(), 80),
    Connection("Ingress", TENANT, 443),
    Connection("Ingress", INTERNET, 22),
]


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("unneeded", UNNEEDED)
def test_other_connections_are_refused(unneeded: Connection, plugin: Plugin) -> None:
    """By default; the instance metadata service, which has tokens of every identity of the Node, is one of them."""
    assert not decide(chart(), unneeded, plugin)


@pytest.mark.parametrize(
    ("policy", "wanted", "specification", "cilium"),
    [
        ({"metricsFrom": [{"namespaceSelector": {"matchLabels": MONITORING}}]}, "scrape of a tenant", False, False),
        ({"httpsTo": [{"ipBlock": {"cidr": "10.226.0.0/24"}}]}, "API server", True, False),
        ({"httpsTo": [{"ipBlock": {"cidr": "10.226.0.0/24"}}]}, "Azure", False, False),
        ({"httpsTo": [{"ipBlock": {"cidr": "20.0.0.0/8"}}]}, "Azure", True, True),
        ({"extraEgress": [{"ports": [{"port": 3128}]}]}, "proxy", True, True),
        ({}, "proxy", False, False),
    ],
)
def test_what_the_values_restrict(policy: Json, wanted: str, specification: bool, cilium: bool) -> None:
    """With addresses in `httpsTo`, Cilium refuses the API server, as the documentation of the value says."""
    connections = {
        "scrape of a tenant": Connection("Ingress", TENANT, 8080),
        "API server": Connection("Egress", API_SERVERS[1], HTTPS),
        "Azure": Connection("Egress", INTERNET, HTTPS),
        "proxy": Connection("Egress", TENANT, 3128),
    }
    objects = chart(networkPolicy=policy)
    found = [decide(objects, connections[wanted], plugin) for plugin in PLUGINS]
    assert found == [specification, cilium]


# Of the examples of https://kubernetes.io/docs/concepts/services-networking/network-policies/.
EXAMPLE = {
    "spec": {
        "podSelector": {"matchLabels": {"role": "db"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {
                "from": [
                    {"ipBlock": {"cidr": "172.17.0.0/16", "except": ["172.17.1.0/24"]}},
                    {"namespaceSelector": {"matchLabels": {"project": "myproject"}}},
                    {"podSelector": {"matchLabels": {"role": "frontend"}}},
                ],
                "ports": [{"protocol": "TCP", "port": 6379}],
            }
        ],
        "egress": [
            {
                "to": [{"ipBlock": {"cidr": "10.0.0.0/24"}}],
                "ports": [{"protocol": "TCP", "port": 32000, "endPort": 32768}],
            }
        ],
    }
}
DB, FRONTEND = {"role": "db"}, {"role": "frontend"}


@pytest.mark.parametrize(
    ("pod", "wanted", "expected"),
    [
        (DB, Connection("Ingress", Peer("172.17.2.1"), 6379), True),
        (DB, Connection("Ingress", Peer("172.17.1.1"), 6379), False),
        (DB, Connection("Ingress", Peer("172.17.2.1"), 6380), False),
        (DB, Connection("Ingress", Peer("172.17.2.1"), 6379, "UDP"), False),
        (DB, Connection("Ingress", Peer("10.0.0.9", FRONTEND, OWN), 6379), True),
        (DB, Connection("Ingress", Peer("10.0.0.9", FRONTEND, MONITORING), 6379), False),
        (DB, Connection("Ingress", Peer("10.0.0.9", {"a": "b"}, {"project": "myproject"}), 6379), True),
        (DB, Connection("Egress", Peer("10.0.0.9"), 32500), True),
        (DB, Connection("Egress", Peer("10.0.0.9"), 32769), False),
        (FRONTEND, Connection("Egress", Peer("10.0.1.9"), 1), True),
    ],
)
def test_the_model_follows_the_specification(pod: Json, wanted: Connection, expected: bool) -> None:
    """The example of the documentation; a Pod that no policy selects may do anything."""
    assert permitted([EXAMPLE], pod, OWN, wanted, "specification") is expected

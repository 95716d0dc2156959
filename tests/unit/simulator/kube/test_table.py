"""Tables of `kubectl get`: columns, JSONPaths and ages."""

from datetime import timedelta

import pytest

from provisioner.simulator.kube.builtin_columns import age, human_duration
from provisioner.simulator.kube.jsonpath import compile_path
from provisioner.simulator.kube.objects import rfc3339
from provisioner.simulator.kube.table import table

from .stores import BEGIN, WIDGETS, Cluster

DAY, HOUR, MINUTE = 86400, 3600, 60


def rows(c, resource, **options):
    shelf = c.store.collection(resource)
    printed = table(shelf.resource, list(shelf.objects.values()), {}, now=c.now, **options)
    names = [column["name"] for column in printed["columnDefinitions"]]
    return [dict(zip(names, row["cells"], strict=True)) for row in printed["rows"]]


@pytest.mark.parametrize(
    ("seconds", "stated"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (3 * MINUTE + 20, "3m20s"),
        (10 * MINUTE + 20, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 5 * HOUR, "2d5h"),
        (8 * DAY + 5 * HOUR, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (3 * 365 * DAY + 4 * DAY, "3y4d"),
        (9 * 365 * DAY + 4 * DAY, "9y"),
    ],
)
def test_ages_are_as_kubectl_prints_them(seconds, stated) -> None:
    """Two units at most, and one for longer ages."""
    assert human_duration(seconds) == stated
    assert age(rfc3339(BEGIN), BEGIN + timedelta(seconds=seconds)) == stated


CLAIM = {
    "metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}},
    "status": {
        "conditions": [{"type": "Launched", "status": "True"}, {"type": "Ready", "status": "False"}],
        "n": [1, 2],
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (r".metadata.labels.topology\.kubernetes\.io/zone", ["z1"]),
        (".metadata.labels['topology.kubernetes.io/zone']", ["z1"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["False"]),
        (".status.conditions[?(@.type=='Ready')].status", ["False"]),
        ('.status.conditions[?(@.type!="Ready")].type', ["Launched"]),
        (".status.conditions[?(@.type=='Absent')].status", []),
        (".status.conditions[*].type", ["Launched", "Ready"]),
        (".status.n[1]", [2]),
        (".status.n[-1]", [2]),
        (".status.n[7]", []),
        (".status.absent.deep", []),
    ],
)
def test_json_paths_of_printer_columns(path, found) -> None:
    """Escaped dots, quoted keys, indexes and filters."""
    assert compile_path(path)(CLAIM) == found


def test_an_invalid_path_is_rejected() -> None:
    """A CRD with it would print wrong columns."""
    with pytest.raises(ValueError, match="cannot understand"):
        compile_path(".a[")


def test_custom_columns_come_from_the_crd() -> None:
    """The name comes first, wide columns by priority, absent values are empty, dates are ages."""
    c = Cluster()
    c.widget(labels={"topology.kubernetes.io/zone": "z1"})
    c.after(90)
    c.widget("w2", {"size": 3})
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    c.store.patch(WIDGETS, "w2", ready, subresource="status")
    assert rows(c, WIDGETS) == [
        {"Name": "w1", "Zone": "z1", "Ready": None, "Age": "90s", "Size": 1},
        {"Name": "w2", "Zone": None, "Ready": "True", "Age": "0s", "Size": 3},
    ]
    columns = table(c.store.collection(WIDGETS).resource, [], {}, now=c.now)["columnDefinitions"]
    assert [(x["name"], x["priority"]) for x in columns if x["priority"]] == [("Size", 1)]


def test_node_roles_and_addresses() -> None:
    """Roles are sorted, addresses are found by type."""
    c = Cluster()
    labels = {"node-role.kubernetes.io/gpu": "", "kubernetes.io/role": "agent"}
    status = {"addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.4"}]}
    c.store.create("nodes", {"metadata": {"name": "n1", "labels": labels}, "status": status})
    (row,) = rows(c, "nodes")
    assert (row["Roles"], row["Internal-IP"], row["External-IP"]) == ("agent,gpu", "10.0.0.4", "<none>")


def test_leases_budgets_attachments_and_daemonsets_have_their_columns() -> None:
    """Each built-in kind has the columns of the real server."""
    c = Cluster()
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    c.store.create("leases.coordination.k8s.io", lease, "kube-system")
    c.store.create("poddisruptionbudgets.policy", {"metadata": {"name": "b"}, "spec": {"minAvailable": "50%"}})
    source = {"persistentVolumeName": "pv1"}
    attachment = {"metadata": {"name": "a"}, "spec": {"attacher": "disk.csi", "nodeName": "n1", "source": source}}
    c.store.create("volumeattachments.storage.k8s.io", attachment)
    pods = {"spec": {"nodeSelector": {"a": "b"}}}
    c.store.create("daemonsets.apps", {"metadata": {"name": "d"}, "spec": {"template": pods}}, "kube-system")
    assert rows(c, "leases.coordination.k8s.io")[0]["Holder"] == "me"
    (budget,) = rows(c, "poddisruptionbudgets.policy")
    assert (budget["Min Available"], budget["Max Unavailable"], budget["Allowed Disruptions"]) == ("50%", "N/A", 0)
    (attached,) = rows(c, "volumeattachments.storage.k8s.io")
    assert (attached["PV"], attached["Node"], attached["Attached"]) == ("pv1", "n1", False)
    assert rows(c, "daemonsets.apps")[0]["Node Selector"] == "a=b"
    assert rows(c, "namespaces")[0]["Status"] == "Active"

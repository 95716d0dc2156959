"""What daemon pods really request counts, also when none of them exists any more."""

from collections.abc import Mapping
from typing import Any

import msgspec

from controllers.provisioning.daemons import DAEMON_SETS_MAX, daemon_specs, observed_daemon_sets, scheduled
from controllers.provisioning.pods import PodDigest
from provisioner.api.nodeclass import ObservedDaemonSet
from provisioner.api.pod import Pod
from provisioner.api.workload import DaemonSet


def containers(cpu: str) -> list[dict[str, Any]]:
    return [{"name": "agent", "resources": {"requests": {"cpu": cpu}}}]


def daemon_set(cpu: str, name: str = "agent") -> DaemonSet:
    template = {"spec": {"containers": containers(cpu)}}
    meta = {"name": name, "namespace": "kube-system", "uid": name}
    return msgspec.convert({"metadata": meta, "spec": {"template": template}}, DaemonSet)


def pod(cpu: str, created: str = "2026-03-01T00:00:00Z", owner: str = "agent") -> Pod:
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner, "uid": owner, "controller": True}
    meta = {"name": f"{owner}-{created}", "namespace": "kube-system", "uid": created, "creationTimestamp": created}
    body = {"metadata": {**meta, "ownerReferences": [reference]}, "spec": {"containers": containers(cpu)}}
    return PodDigest()(msgspec.convert(body, Pod))


def cpu_of(of: DaemonSet, *pods: Pod, known: tuple[ObservedDaemonSet, ...] = ()) -> int:
    (spec,) = daemon_specs((of,), pods, known)
    requests: Mapping[str, int] = spec.requests
    return requests["cpu"]


def test_of_a_daemon_set_only_the_constraints_are_kept() -> None:
    """Programs, volumes and status are dropped; requests, ports and selectors are the same."""
    env = [{"name": f"v{number}", "value": "x" * 100} for number in range(100)]
    program = {"image": "i", "command": ["c"], "args": ["a"], "env": env, "ports": [{"hostPort": 80}]}
    spec = {
        "containers": [{**containers("50m")[0], **program}],
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        "nodeSelector": {"x": "y"},
    }
    body = {"metadata": {"name": "a", "namespace": "b"}, "spec": {"template": {"spec": spec}}}
    found = msgspec.convert({**body, "status": {"numberReady": 1}}, DaemonSet)
    kept = scheduled(found)
    assert daemon_specs((kept,), ()) == daemon_specs((found,), ())
    assert daemon_specs((kept,), ())[0].host_ports
    assert len(msgspec.json.encode(kept, enc_hook=dict)) < 300


def test_ports_of_a_daemon_set_in_the_network_of_the_node() -> None:
    """The API server states them as host ports in its pods only."""
    spec = {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 9100}]}]}
    body = {"metadata": {"name": "a", "namespace": "b"}, "spec": {"template": {"spec": spec}}}
    kept = scheduled(msgspec.convert(body, DaemonSet))
    assert [port for _, port, _ in daemon_specs((kept,), ())[0].host_ports] == [9100]


def test_the_newest_pod_counts() -> None:
    """A VPA raises the requests of the pods that are created from now on."""
    old, new = pod("100m"), pod("200m", "2026-03-02T00:00:00Z")
    assert cpu_of(daemon_set("50m"), new, old) == 200


def test_requests_are_remembered_without_pods() -> None:
    """The last machine is gone; the next one is bought for what the pods requested."""
    known = observed_daemon_sets((daemon_set("50m"),), (pod("200m"),), ())
    assert observed_daemon_sets((daemon_set("50m"),), (), known) == known
    assert cpu_of(daemon_set("50m"), known=known) == 200


def test_a_template_that_changes_counts_again() -> None:
    """A person corrects the template while no pod exists."""
    known = observed_daemon_sets((daemon_set("50m"),), (pod("200m"),), ())
    assert cpu_of(daemon_set("150m"), known=known) == 150
    assert observed_daemon_sets((daemon_set("150m"),), (), known) == ()


def test_what_the_template_states_is_not_recorded() -> None:
    """The status of a node class has what cannot be read elsewhere only, of existing DaemonSets."""
    known = observed_daemon_sets((daemon_set("50m"),), (pod("200m"),), ())
    assert observed_daemon_sets((daemon_set("50m"),), (pod("50m"),), known) == ()
    assert observed_daemon_sets((), (), known) == ()


def test_an_entry_that_cannot_be_read_is_ignored() -> None:
    """Others changed the status."""
    (one,) = observed_daemon_sets((daemon_set("50m"),), (pod("200m"),), ())
    assert cpu_of(daemon_set("50m"), known=(msgspec.structs.replace(one, requests={"cpu": "much"}),)) == 50


def test_the_record_is_bounded() -> None:
    """A cluster can have more DaemonSets than the status takes."""
    names = [f"agent-{number:03}" for number in range(DAEMON_SETS_MAX + 10)]
    found = observed_daemon_sets([daemon_set("50m", name) for name in names], [pod("1", owner=n) for n in names], ())
    assert len(found) == DAEMON_SETS_MAX

"""Objects of a cluster that a plan's facts name: DaemonSets, volumes, and the CRDs of other operators."""

from typing import Any

from provisioner.simulator.kube.resources import CRD_KEY
from provisioner.simulator.scheduling.volumes import BOUND, DISK_ZONE
from tests.world.harness import Sim

from .constraints import requires


def create_daemon_set(sim: Sim, one: dict[str, Any]) -> None:
    """A DaemonSet of the plan; `claim`: the PersistentVolumeClaim of a volume of its pods."""
    labels = {"app": one["name"]}
    container = {"name": "main", "image": "agent", "resources": {"requests": one["requests"]}}
    pods: dict[str, Any] = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
    if "claim" in one:
        pods["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": one["claim"]}}]
    if not one["at"]:
        # As those of AKS, which are there from the beginning.
        pods["affinity"] = requires({"key": "kubernetes.azure.com/cluster", "operator": "Exists"})
    template = {"metadata": {"labels": labels}, "spec": pods}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    sim.store.create("daemonsets.apps", {"metadata": {"name": one["name"]}, "spec": spec}, "kube-system")


def create_volume(sim: Sim, name: str, *, zone: str, bound: bool, volume: str = "") -> None:
    """A PersistentVolumeClaim and its disk, as the disk driver describes it; `volume`: what the claim calls it."""
    terms = [{"matchExpressions": [{"key": DISK_ZONE, "operator": "In", "values": [zone]}]}]
    disk = {"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
    sim.store.create("persistentvolumes", disk)
    annotations = {BOUND: "yes"} if bound else {}
    claim = {"metadata": {"name": name, "annotations": annotations}, "spec": {"volumeName": volume or name}}
    sim.store.create("persistentvolumeclaims", claim, "default")


def create_crds(sim: Sim, *, count: int, size: int) -> None:
    """The definitions of another operator, with long descriptions."""
    for number in range(count):
        plural, group = f"parts{number}", "large.example.com"
        schema = {"type": "object", "description": "x" * size, "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": plural, "singular": plural, "kind": f"Part{number}", "listKind": f"Part{number}List"}
        spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
        sim.store.create(CRD_KEY, {"metadata": {"name": f"{plural}.{group}"}, "spec": spec})

"""Where the bound PersistentVolumes of a pod can be attached, and pods whose claims are not bound.

A claim whose StorageClass binds with the first consumer restricts nothing: where it is provisioned is not modelled, and
neither is how many disks a Node takes.

Source: https://github.com/kubernetes/kubernetes/tree/v1.34.4/pkg/scheduler/framework/plugins/volumebinding,
https://github.com/kubernetes-sigs/azuredisk-csi-driver/tree/master/docs (labels of zones).
"""

from provisioner.api import labels
from provisioner.simulator.kube.store import Store

from .matching import term_selects
from .nodes import NodeInfo
from .rejection import Rejection
from .requests import Json

KINDS = ("persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io")
# Which the driver of disks adds to each Node, with its zone.
DISK_ZONE = "topology.disk.csi.azure.com/zone"
BOUND = "pv.kubernetes.io/bind-completed"


class Volumes:
    """The PersistentVolumes of one pod, read once for all Nodes of a pass."""

    def __init__(self, pod: Json, store: Store) -> None:
        self._unbound: Rejection | None = None
        self._terms: list[list[Json]] = []
        space = pod["metadata"]["namespace"]
        for one in pod["spec"].get("volumes") or ():
            if name := (one.get("persistentVolumeClaim") or {}).get("claimName"):
                self._add(store.get("persistentvolumeclaims", name, space), name, store)

    def _add(self, claim: Json | None, name: str, store: Store) -> None:
        if claim is None:
            self._unbound = Rejection((f'persistentvolumeclaim "{name}" not found',))
            return
        spec = claim["spec"]
        volume = store.get("persistentvolumes", spec["volumeName"]) if spec.get("volumeName") else None
        if volume is not None and BOUND in (claim["metadata"].get("annotations") or {}):
            if required := (volume["spec"].get("nodeAffinity") or {}).get("required"):
                self._terms.append(required["nodeSelectorTerms"])
            return
        known = store.get("storageclasses.storage.k8s.io", spec.get("storageClassName") or "")
        if spec.get("volumeName") or (known or {}).get("volumeBindingMode") != "WaitForFirstConsumer":
            self._unbound = Rejection(("pod has unbound immediate PersistentVolumeClaims",))

    def reject(self, info: NodeInfo) -> Rejection | None:
        """The reason why the pod's volumes keep it from this Node; None if they do not."""
        if self._unbound is not None or not self._terms:
            return self._unbound
        found = {**info.labels, DISK_ZONE: info.labels.get(labels.ZONE, "")}
        if all(any(term_selects(term, found, info.name) for term in terms) for terms in self._terms):
            return None
        return Rejection(("node(s) didn't match PersistentVolume's node affinity",))

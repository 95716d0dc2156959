"""Drains that end by force or wait for volumes, run unchanged in the simulator and on a real API server.

As in `stories.py`. Together with its scenarios these use every right of the chart that a removal needs.
"""

import asyncio
from typing import Any

from provisioner.api import labels
from tests.world.claims import events, ready
from tests.world.harness import node_claim
from tests.world.transcript import BUDGETS, claim_condition, run_pod

from .stories import LONG, WHOLE, Scene, Story

Json = dict[str, Any]

ATTACHMENTS = "volumeattachments.storage.k8s.io"
VOLUME_CLAIMS = "persistentvolumeclaims"


async def forced(scene: Scene) -> None:
    """A PodDisruptionBudget and do-not-disrupt block two pods until the claim's termination deadline; then both are
    deleted.
    """
    stage = scene.stage
    await stage.apply(node_claim(scene.name, terminationGracePeriod="40s"))
    uid = await ready(stage, scene.name)
    node = scene.node()["metadata"]["name"]
    guarded, training = f"{scene.name}-guarded", f"{scene.name}-training"
    run_pod(stage, guarded, node)
    run_pod(stage, training, node, annotations={labels.DO_NOT_DISRUPT: "true"})
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": guarded}}}
    stage.store.create(BUDGETS, {"metadata": {"name": guarded}, "spec": spec}, "default")
    await stage.delete_claim(scene.name)
    await stage.until(
        lambda: "do-not-disrupt" in claim_condition(stage, "Drained", scene.name)[2], LONG, "Drained names what holds"
    )
    assert guarded in claim_condition(stage, "Drained", scene.name)[2]
    assert not scene.calls("DELETE")
    claim = stage.claim(scene.name)
    assert claim is not None
    assert labels.TERMINATION_TIMESTAMP in claim["metadata"]["annotations"]
    await scene.went(uid, WHOLE)
    assert stage.store.get("pods", guarded, "default") is None
    assert stage.store.get("pods", training, "default") is None
    assert events(stage, scene.name, "TerminationGracePeriodExpiring")
    stage.store.delete(BUDGETS, guarded, "default")


async def attached(scene: Scene) -> None:
    """A volume that stays attached blocks the removal and is named; one that a remaining pod uses does not."""
    stage = scene.stage
    uid = await scene.up()
    node = scene.node()["metadata"]["name"]
    kept, is_waiting_eviction = f"{scene.name}-kept", f"{scene.name}-data"
    claimed = {"volumeName": kept, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    stage.store.create(VOLUME_CLAIMS, {"metadata": {"name": kept}, "spec": claimed}, "default")
    spec: Json = {
        "nodeName": node,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": kept}}],
    }
    stage.store.create("pods", {"metadata": {"name": f"{scene.name}-agent"}, "spec": spec}, "default")
    for volume in (kept, is_waiting_eviction):
        source = {"persistentVolumeName": volume}
        attachment = {"attacher": "disk.csi.azure.com", "nodeName": node, "source": source}
        stage.store.create(ATTACHMENTS, {"metadata": {"name": volume}, "spec": attachment})
    await stage.delete_claim(scene.name)
    await stage.until(
        lambda: is_waiting_eviction in claim_condition(stage, "VolumesDetached", scene.name)[2],
        LONG,
        "the volume is named",
    )
    assert claim_condition(stage, "VolumesDetached", scene.name)[:2] == ("Unknown", "AwaitingVolumeDetachment")
    assert kept not in claim_condition(stage, "VolumesDetached", scene.name)[2]
    await asyncio.sleep(scene.a_while_seconds)
    assert not scene.calls("DELETE")
    stage.store.delete(ATTACHMENTS, is_waiting_eviction)
    await scene.went(uid, WHOLE)


DRAINS: dict[str, Story] = {"forced": forced, "attached": attached}

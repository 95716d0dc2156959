"""The checks behind the liveness and readiness probes.

Liveness fails only for a state that a restart repairs; a blocked event loop needs no check, because it does not answer
probes. Readiness names what is missing and why. A replica without the Lease is as ready as the leader, unless
another release holds it; a process that shuts down is not ready, although it still has to release the Lease.

Source: docs/references/karpenter.md#process.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from controllers.model.crd_deletion import NODECLAIM_CRD
from provisioner.runtime.controller import Controller
from provisioner.runtime.named import Named
from provisioner.runtime.objects import CustomResourceDefinition
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.server import Check
from provisioner.runtime.workqueue import WorkQueue

STALE_SECONDS = 180.0


def live(controller: Controller, queue: WorkQueue, leading: Callable[[], bool]) -> Mapping[str, Check]:
    """The checks of /healthz."""

    def progress() -> str | None:
        idle = asyncio.get_running_loop().time() - controller.progress_at
        if leading() and queue.depth and idle > STALE_SECONDS:
            return f"queued keys: {queue.depth}; no reconcile has finished for {idle:.0f} s"
        return None

    return {"ping": lambda: None, "progress": progress}


def ready(
    claims: Reflector[Any],
    nodes: Reflector[Any],
    crds: Named[CustomResourceDefinition],
    stopping: Callable[[], bool],
    also: Mapping[str, Check],
) -> Mapping[str, Check]:
    """The checks of /readyz; `also`: further ones by name."""

    def crd() -> str | None:
        # Without permission to list CRDs the cache never syncs, and the check passes.
        if crds.synced and crds.get(NODECLAIM_CRD) is None:
            return f"{NODECLAIM_CRD} is not installed: install the chart gpu-provisioner-crd"
        return None

    return {
        "claims": lambda: _unsynced(claims),
        "nodes": lambda: _unsynced(nodes),
        "crd": crd,
        **also,
        "shutdown": lambda: "the process is shutting down" if stopping() else None,
    }


def _unsynced(cache: Reflector[Any]) -> str | None:
    return None if cache.synced else f"not synced: {cache.last_error or 'no response yet'}"

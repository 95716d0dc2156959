"""What the probes of a Pod are told: whether the program still works, and whether it knows enough to be counted on.

`live` fails only for what a restart would mend; the loop itself needs no check, as it answers the probes: one
that is held up answers none. `ready` says by name what is missing and why; a replica that does not lead is as ready as
the one that does, and a process that is ending is not, while it still gives its lease back.

Source: docs/references/karpenter.md#process.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from controllers.state.indexes import NODECLAIM_CRD
from provisioner.runtime.controller import Controller
from provisioner.runtime.objects import CustomResourceDefinition
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.server import Check
from provisioner.runtime.workqueue import WorkQueue

STALE_SECONDS = 180.0


def live(controller: Controller, queue: WorkQueue, leading: Callable[[], bool]) -> Mapping[str, Check]:
    """The checks of /healthz."""

    def stuck() -> str | None:
        idle = asyncio.get_running_loop().time() - controller.progress_at
        if leading() and queue.depth and idle > STALE_SECONDS:
            return f"keys that wait: {queue.depth}; no pass has ended for {idle:.0f} s"
        return None

    return {"ping": lambda: None, "progress": stuck}


def ready(
    claims: Reflector[Any], nodes: Reflector[Any], crds: Reflector[CustomResourceDefinition], ending: Callable[[], bool]
) -> Mapping[str, Check]:
    """The checks of /readyz."""

    def undefined() -> str | None:
        # Whoever may not read definitions is not told that there are none.
        if crds.synced and crds.get(NODECLAIM_CRD) is None:
            return f"{NODECLAIM_CRD} is not installed: install the chart gpu-provisioner-crd"
        return None

    return {
        "claims": lambda: _unlisted(claims),
        "nodes": lambda: _unlisted(nodes),
        "crd": undefined,
        "running": lambda: "it is ending" if ending() else None,
    }


def _unlisted(cache: Reflector[Any]) -> str | None:
    return None if cache.synced else f"not yet listed: {cache.last_error or 'no answer so far'}"

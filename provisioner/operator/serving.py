"""Health and metrics on their ports, as a pod's probes and scrapers find them.

A port of None is not served; whatever is served is so until cancelled.
"""

import asyncio
from collections.abc import Callable, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry

from provisioner.runtime.server import Check, health_app, metrics_app, serve


async def listen(
    *,
    health_port: int | None,
    metrics_port: int | None,
    live: Mapping[str, Check],
    ready: Mapping[str, Check],
    registry: CollectorRegistry,
) -> None:
    """Serve until cancelled. Raises OSError for a port that is taken."""
    async with asyncio.TaskGroup() as tasks:
        if health_port is not None:
            tasks.create_task(_hold(health_port, lambda: health_app(live=live, ready=ready)))
        if metrics_port is not None:
            tasks.create_task(_hold(metrics_port, lambda: metrics_app(registry)))
        await asyncio.get_running_loop().create_future()


async def _hold(port: int, make: Callable[[], web.Application]) -> None:
    async with serve("0.0.0.0", port, make()):  # noqa: S104 - probes and scrapers come from outside the pod
        await asyncio.get_running_loop().create_future()

"""`uninstall`: deletes the NodeClaims of this program, waits for the controller to remove their machines, proves zero.

The command itself deletes NodePools, NodeClaims and AgentPoolNodeClasses, each under its UID, and last the Lease.
NodePools come first: they would buy machines for the pods that a drain evicts. The controller drains Nodes, deletes
agent pools and removes finalizers; its garbage collection removes orphans. The Lease is deleted under its UID and
version, once no controller has renewed it, and no object of this program has been seen, for as long as Azure may take
to show an agent pool whose PUT it accepted. Exit code 0 means that complete lists showed nothing.

Source: docs/references/rules.md#absence-needs-proof, docs/references/reliability.md#lease-rules.
"""

import argparse
import asyncio
from enum import Enum, auto
from typing import Any

from provisioner.api.meta import ObjectMeta
from provisioner.api.text import printable
from provisioner.operator.holders import holder
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.objects import Lease, key_of
from provisioner.runtime.resources import LEASES, NODECLAIMS, NODECLASSES, NODEPOOLS, Resource

from .clients import Tools, read_state
from .confirmation import LeaseState, lease_state
from .console import Console, moment
from .controller_lease import Controller, LeaseObserver, observe_controller
from .demand_remains import read_demand
from .refusal import OK, Refused, by_api_server
from .remains import Remains, remains
from .uninstall_effects import Effects, read_effects
from .uninstall_report import Report

# Two requests to ARM each time, of the 60 and one per second that AKS allows
# (docs/references/agent-pools.md#throttling).
POLL_SECONDS = 10.0
CONTROLLER_RUNS = 3

START = "Start the controller (helm upgrade --install), then run this again; --leader-election-name names its Lease."
AGAIN = "Resolve what each object waits for, then run this command again; deletions that were requested continue."


class Next(Enum):
    WAIT = auto()
    BLOCKED = auto()  # a user must act before anything else is removed
    CONTROLLER_RUNS = auto()  # only the Lease of a running controller remains
    DELETE_LEASES = auto()
    DONE = auto()


def decide(
    left: Remains,
    controller: Controller,
    *,
    clear_seconds: float,
    idle_seconds: float,
    settle_seconds: float,
    elect: bool = True,
) -> Next:
    """What to do after a read.

    `clear_seconds`: for how long no read has shown an object of this program; `idle_seconds`: for how long no Lease has
    had a holder that renews it.
    """
    if left.items:
        return Next.BLOCKED if all(item.blocked for item in left.items) else Next.WAIT
    if controller is Controller.RUNNING:
        return Next.CONTROLLER_RUNS
    if controller is Controller.ABSENT:
        return Next.DONE if elect or clear_seconds >= settle_seconds else Next.WAIT
    proven = controller is Controller.STOPPED and min(clear_seconds, idle_seconds) >= settle_seconds
    return Next.DELETE_LEASES if proven else Next.WAIT


async def run(tools: Tools, wanted: argparse.Namespace, console: Console) -> int:
    """Delete the NodeClaims and wait, or list them with `--dry-run`. Raises Refused."""
    uninstall = Uninstall(tools, console, output=wanted.output)
    left = await uninstall.read()
    if wanted.dry_run:
        uninstall.show(left, await uninstall.effects(left))
        _warn(left, uninstall, console)
        return OK
    if left.items and uninstall.stopped():
        uninstall.show(left)
        raise Refused(f"no controller is running: {uninstall.why_stopped()}", START)
    effects = await uninstall.effects(left) if left.to_delete else None
    if effects is not None:
        console.err.writelines(f"{printable(line)}\n" for line in uninstall.report(left, effects).lines())
    _warn(left, uninstall, console)
    if effects is not None:
        question = f"Delete {left.to_delete} and their machines with {effects} in {uninstall.where}?"
        await console.confirm(question, yes=wanted.yes)
    await uninstall.delete(left)
    end, left = await uninstall.wait(left, wanted.timeout)
    uninstall.show(left)
    match end:
        case Next.DONE:
            return OK
        case Next.CONTROLLER_RUNS:
            refused = Refused(*uninstall.still_running(), CONTROLLER_RUNS)
        case Next.BLOCKED:
            refused = Refused(f"{left} remain, which this command does not remove", AGAIN)
        case _:
            refused = Refused(f"{uninstall.all_of(left)} remain after {_minutes(wanted.timeout)}", AGAIN)
    raise refused


def _warn(left: Remains, uninstall: "Uninstall", console: Console) -> None:
    if uninstall.stopped() and left.items:
        console.err.write(f"warning: no controller is running: {uninstall.why_stopped()}\n    {START}\n")
    if owners := left.owners():
        console.err.write(
            "warning: the owner of a NodeClaim creates another one when its NodeClaim is deleted\n"
            f"    Delete the owners first: {', '.join(owners)}\n"
        )


class Uninstall:
    """The reads, the writes and the output of one run."""

    def __init__(self, tools: Tools, console: Console, *, output: str) -> None:
        self._tools = tools
        self._console = console
        self._output = output
        self._observer = LeaseObserver()
        # The UIDs of the objects whose deletion this run requested; None before it has.
        self._deleted: set[str] | None = None
        self._clear_since: float | None = None
        self._failure: Refused | None = None

    @property
    def where(self) -> str:
        """The cluster, by its names in Azure and in the kubeconfig."""
        server = self._tools.clients.kube.server
        return f"{self._tools.cluster}{f', API server {server}' if server else ''}"

    # Reads

    async def effects(self, left: Remains) -> Effects:
        """What the deletion affects besides. Raises Refused."""
        return await read_effects(self._tools.clients.kube, {one.name for one in left.items if one.kind == "Node"})

    async def read(self) -> Remains:
        """Agent pools, NodeClaims, Nodes and Leases, each completely. Raises Refused."""
        tools, started = self._tools, asyncio.get_running_loop().time()
        await observe_controller(tools, self._observer)
        now = tools.clients.clock.now()
        states = [lease_state(lease, now) for lease in self._observer.leases()]
        state = next(
            (state for state in states if state.confirmation is not None), states[0] if states else LeaseState()
        )
        found = await read_state(tools)
        left = remains(found, await read_demand(tools.clients.kube), tools, state, deleted=self._deleted)
        if left.items:
            self._clear_since = None
        elif self._clear_since is None:
            self._clear_since = started
        return left

    @property
    def _controller(self) -> Controller:
        return self._observer.controller(asyncio.get_running_loop().time())

    def stopped(self) -> bool:
        """Whether no controller is running; unknown without leader election."""
        return self._tools.config.elect and self._controller in (Controller.STOPPED, Controller.ABSENT)

    def why_stopped(self) -> str:
        """The state of the Leases."""
        leases = self._observer.leases()
        if not leases:
            return f"no namespace has a Lease {self._tools.config.lease_name}"
        return "; ".join(f"Lease {key_of(lease)} {_idle(lease)}" for lease in leases)

    def still_running(self) -> tuple[str, str]:
        """Why the Lease remains, and the remedy."""
        held = [lease for lease in self._observer.leases() if lease.spec.holder_identity]
        names = "; ".join(f"{lease.spec.holder_identity} renews Lease {key_of(lease)}" for lease in held)
        cause = f"no machine remains, but the controller is running: {names}"
        uninstalls = " && ".join(
            dict.fromkeys(f"helm uninstall gpu-provisioner -n {_release_namespace(lease)}" for lease in held)
        )
        given = f" with {self._tools.flags}" if self._tools.flags else ""
        return cause, f"{uninstalls}; then run this command again{given}."

    # Writes

    async def delete(self, left: Remains) -> None:
        """Request the deletion of all live NodePools, then of NodeClaims and node classes. Raises Refused."""
        self._deleted = set()
        for pool in left.live_pools:
            await self._delete(NODEPOOLS, pool.metadata)
        for claim in left.live:
            await self._delete(NODECLAIMS, claim.metadata)
        for node_class in left.live_classes:
            await self._delete(NODECLASSES, node_class.metadata)

    async def _delete(self, resource: Resource[Any], meta: ObjectMeta) -> None:
        try:
            await self._tools.clients.kube.delete(resource, meta.name, uid=meta.uid)
        except KubeError as error:
            if not (error.not_found or error.conflict):
                raise by_api_server(error) from None
        self._deleted = {*(self._deleted or ()), meta.uid}
        self._console.err.write(f"{resource.kind.lower()}/{meta.name} deletion requested\n")

    async def _delete_leases(self) -> None:
        """Delete the Leases as they were read; one that a controller has acquired since stays. Raises Refused."""
        for lease in self._observer.leases():
            meta = lease.metadata
            try:
                await self._tools.clients.kube.delete(
                    LEASES, meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version
                )
            except KubeError as error:
                if not (error.not_found or error.conflict):
                    raise by_api_server(error) from None
            else:
                self._console.err.write(f"lease/{meta.name} in namespace {meta.namespace} deleted\n")

    async def wait(self, left: Remains, timeout_seconds: float) -> tuple[Next, Remains]:
        """Read until nothing remains, a user must act, or the time is over. Raises Refused."""
        loop = asyncio.get_running_loop()
        deadline, shown, warned = loop.time() + timeout_seconds, "", False
        left = await self._try_read(left)
        while True:
            if (text := self.all_of(left)) != shown:
                shown = text
                self._note(f"{text} remain")
            if left.items and self.stopped() and not warned:
                warned = True
                self._note(f"no controller is running: {self.why_stopped()}; nothing is removed until one runs")
            step = self._decide(left)
            if step is Next.DELETE_LEASES:
                await self._delete_leases()
            elif step is not Next.WAIT:
                return step, left
            elif loop.time() >= deadline:
                if self._failure is not None:
                    raise self._failure
                return step, left
            else:
                await asyncio.sleep(max(0.0, min(POLL_SECONDS, deadline - loop.time())))
            left = await self._try_read(left)

    def _decide(self, left: Remains) -> Next:
        if self._failure is not None:
            return Next.WAIT
        now, config = asyncio.get_running_loop().time(), self._tools.config
        return decide(
            left,
            self._controller,
            clear_seconds=now - self._clear_since if self._clear_since is not None else 0.0,
            idle_seconds=self._observer.idle_seconds(now),
            settle_seconds=config.settle_seconds,
            elect=config.elect,
        )

    async def _try_read(self, left: Remains) -> Remains:
        """What remains; after a failure, what the last successful read showed."""
        try:
            read = await self.read()
        except Refused as refused:
            if self._failure is None or refused.cause != self._failure.cause:
                self._note(f"failed to read: {refused.cause}; trying again")
            self._failure, self._clear_since = refused, None
            return left
        self._failure = None
        return read

    # Output

    def _note(self, line: str) -> None:
        self._console.err.write(f"{moment(self._tools.clients.clock.now())}  {line}\n")

    def all_of(self, left: Remains) -> str:
        """The numbers of all objects, Leases included."""
        return self.report(left).summary

    def report(self, left: Remains, effects: Effects | None = None) -> Report:
        """What remains, Leases included, for output. `effects`: before the deletion."""
        return Report(left, tuple(self._observer.leases()), self._controller, self.where, effects)

    def show(self, left: Remains, effects: Effects | None = None) -> None:
        """Print what remains, and the result. `effects`: before the deletion."""
        report = self.report(left, effects)
        self._console.print(*(report.lines() if self._output == "table" else [report.encoded(self._output)]))


def _idle(lease: Lease) -> str:
    if not lease.spec.holder_identity:
        return "has no holder"
    return f"is not renewed by {lease.spec.holder_identity}, last at {lease.spec.renew_time}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g}m" if seconds >= 60 else f"{seconds:g}s"


def _release_namespace(lease: Lease) -> str:
    """The namespace of the Pod that holds the Lease, or of the Lease for a holder of an earlier version."""
    return holder(lease.spec.holder_identity or "").namespace or lease.metadata.namespace

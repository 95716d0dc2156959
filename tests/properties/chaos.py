"""The fault injection of the chaos test: faults of single calls and failures between calls, drawn from one seed.

Each kind of fault has its own random stream. Each fault of ARM is a `Fault` of the simulator for exactly the call that
it was drawn for, so injected errors can be separated from errors that the controllers cause. `calm()` ends all faults.

Source: docs/references/reliability.md#faults (1 to 6, 24, 28, 29, 37 to 45, 52 to 54).
"""

import asyncio
import re
from collections import Counter
from random import Random

from aiohttp import web

from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.errors import Answer
from provisioner.simulator.azure.faults import Failure, Fault
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.harness import Sim

ARM_SHARE, KUBE_SHARE, FAILING_SHARE = 0.12, 0.015, 0.15
KILL_SECONDS = (150.0, 450.0)
VERBS = {"cluster": "CLUSTER"}
NO_QUOTA, NO_QUOTA_FAMILY = "Standard_ND96isr_H100_v5", "StandardNDISRH100v5Family"


def azure_of(seed: int) -> AzureSettings:
    """Azure's settings for this seed: read lags, list order, and the effect of a DELETE on a busy pool."""
    rng = Random(f"{seed}/azure")
    return AzureSettings(
        create_seconds=(60.0, 240.0),
        delete_seconds=(30.0, 120.0),
        get_lag_seconds=rng.choice((0.0, 3.0, 10.0)),
        list_lag_seconds=rng.choice((0.0, 5.0, 20.0)),
        list_order=rng.choice(("before", "after")),
        delete_preempts=rng.random() < 0.5,
        page_size=rng.choice((40, 100)),
        family_cores={NO_QUOTA_FAMILY: 0},
    )


def cause_of(pool: Pool) -> str:
    """The innermost code of a failed pool's error: the injected one, or a quota error that came before it."""
    assert pool.error is not None
    inner = next(iter(pool.error["details"]), pool.error)
    quoted = re.search(r'Code="(\w+)"', inner["message"])
    return quoted[1] if quoted else str(inner["code"])


class FaultInjector:
    """Injects faults into both servers until `calm()`. `happened` counts the injected faults by name.

    `causes` are the injected error codes of failed creations so far, by pool name.
    """

    def __init__(self, sim: Sim, seed: int) -> None:
        self.happened: Counter[str] = Counter()
        self.throttled: Counter[str] = Counter()
        self.causes: dict[str, list[str]] = {}
        self._sim = sim
        self._arm, self._kube, self._kills = (Random(f"{seed}/{kind}") for kind in ("arm", "kube", "kills"))
        self._laid: list[Fault] = []
        sim.world.before.append(self._before)

    def calm(self) -> None:
        """Stop injecting faults."""
        self._sim.world.before.remove(self._before)
        self._count()
        self._sim.cloud.faults.clear()

    async def kill_at_intervals(self, until_seconds: float) -> None:
        """Kill the running controller at random intervals, by FIN or RST, and start a successor with empty memory."""
        while (pause := self._kills.uniform(*KILL_SECONDS)) < until_seconds - self._sim.now:
            await asyncio.sleep(pause)
            living = [name for name, process in self._sim.controllers.items() if not process.dead]
            for name in living:
                self.happened["kill"] += 1
                self._sim.replace_controller(name, reset=self._kills.random() < 0.5)

    async def _before(self, call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.who not in self._sim.controllers:
            return None
        if call.system == "arm":
            self._over_arm(call)
            return None
        if call.is_bookkeeping or not call.is_write or self._kube.random() >= KUBE_SHARE:
            return None
        status, reason = self._kube.choice(((409, "Conflict"), (500, "InternalError"), (503, "ServiceUnavailable")))
        self.happened[f"kube {status}"] += 1
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
        return web.json_response({**body, "message": f"injected: {reason}"}, status=status)

    def _over_arm(self, call: Call) -> None:
        self._count()
        verb = VERBS.get(call.target.kind, call.verb)
        if verb == "PUT" and self._arm.random() < FAILING_SHARE:
            code, failure = self._failure()
            self.causes.setdefault(call.target.name, []).append(code)
            self._lay("failed operation", Fault(verb="PUT", pool=call.target.name, failure=failure))
        elif self._arm.random() < ARM_SHARE:
            self._lay(*self._fault(verb, call.target.name))

    def _fault(self, verb: str, pool: str) -> tuple[str, Fault]:
        rng = self._arm
        kind = rng.choice(("429", "ARM 429", "5xx", "lost before", "lost after", "slow", "409"))
        if kind == "409" and verb not in ("PUT", "DELETE"):
            kind = "5xx"
        match kind:
            case "lost before" | "lost after":
                return kind, Fault(verb=verb, pool=pool or "*", drop=kind.removeprefix("lost "))
            case "slow":
                slow = rng.choice(("before", "after"))
                return kind, Fault(verb=verb, pool=pool or "*", slow_seconds=rng.uniform(1.0, 25.0), slow=slow)
            case _:
                return kind, Fault(verb=verb, pool=pool or "*", answer=self._answer(kind, verb, pool))

    def _answer(self, kind: str, verb: str, pool: str) -> Answer:
        rng = self._arm
        if kind == "429":
            return errors.throttled(f"{verb} injected", rng.randint(1, 40))
        if kind == "ARM 429":
            return errors.arm_throttled("reads", rng.randint(1, 20))
        if kind == "409":
            return rng.choice((errors.cluster_busy("Updating"), errors.pool_busy(pool, "Updating")))
        return rng.choice((errors.html(502), errors.html(503), errors.rp(500, "InternalServerError", "try later")))

    def _failure(self) -> tuple[str, Failure]:
        """An error code of Compute or AKS, and the failure that carries it, wrapped or not."""
        rng = self._arm
        capacity = [faults.no_capacity(code) for code in ("AllocationFailed", "ZonalAllocationFailed")]
        shortage = [faults.quota_exceeded("standardNCADSA100v4Family Cores"), faults.quota_exceeded("LowPriorityCores")]
        error = rng.choice((*capacity, *shortage, faults.nodes_not_ready()))
        booted = error["code"] == "NodesNotReady"
        wrapped = faults.wrapped(error, how=rng.choice(("details", "message")))
        return error["code"], Failure(
            error=error if booted else wrapped,
            after_seconds=rng.uniform(5.0, 90.0),
            machine=booted,
        )

    def _lay(self, kind: str, fault: Fault) -> None:
        self.happened[kind] += 1
        self._laid.append(fault)
        self._sim.cloud.faults.append(fault)

    def _count(self) -> None:
        """Remove the faults that have been applied to their call."""
        for fault in [fault for fault in self._laid if fault.seen]:
            if fault.answer is not None and fault.answer.status == 429:
                self.throttled[fault.verb] += 1
            self._laid.remove(fault)
            self._sim.cloud.faults.remove(fault)

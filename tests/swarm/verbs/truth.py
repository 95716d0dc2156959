"""What is true of a machine, and what the program must then have done, or not: for verbs to state at their end."""

from typing import TYPE_CHECKING

from provisioner.simulator.nodes.machine import Machine
from provisioner.simulator.snapshot import condition
from tests.world.harness import Json

if TYPE_CHECKING:
    from tests.swarm.run import Run

# After a loss, so soon the claim states it.
REPORTED_SECONDS = 900.0


def remains(run: "Run", machine: Machine) -> bool:
    """Whether this machine still runs, with a Node."""
    same = run.sim.nodes.machines.get(machine.name) is machine
    return same and run.sim.store.get("nodes", machine.name) is not None


def by_dra(run: "Run", machine: Machine) -> bool:
    """Whether a DRA driver offers the GPUs of this machine."""
    wanted = run.plan.facts.get("nodes", {}).get("dra_labels")
    return wanted is not None and wanted.items() <= machine.pool.labels.items()


def claim_of(run: "Run", machine: Machine) -> Json | None:
    """The claim of a machine of ours."""
    uid = run.sim.invariants.claim_of_node(machine.name)
    return next((one for one in run.claims() if one["metadata"]["uid"] == uid), None)


def kept(run: "Run", claim: Json | None, *about: str) -> None:
    """Raises AssertionError if an Event states that this claim's machine was replaced for one of these."""
    if claim is None:
        return
    name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
    for one in run.sim.store.each("events"):
        concerned = one["involvedObject"].get("uid") == uid and one.get("reason") == "NodeRepair"
        if concerned and any(text in one["message"] for text in about):
            raise AssertionError(f"a machine that works was replaced, {name}: {one['message']}")


def reported(run: "Run", machine: Machine, claim: Json | None, since: float) -> None:
    """Raises AssertionError if a claim is Ready though its machine has lost GPUs since then."""
    sim = run.sim
    seen = not by_dra(run, machine) or run.plan.facts["nodes"].get("device_health") == "lost"
    late = sim.now - max(since, sim.disturbed_until) > REPORTED_SECONDS
    if claim is None or not late or not seen or not remains(run, machine) or machine.plugin != "running":
        return
    found = sim.claim(claim["metadata"]["name"])
    if found is None or found["metadata"]["uid"] != claim["metadata"]["uid"] or not machine.answers:
        return
    lost = machine.lost_gpus or machine.unanswered_gpus
    if lost and condition(found, "Ready") == "True" and run.plan.policy.get("gpu_readiness") != "report":
        raise AssertionError(f"claim {claim['metadata']['name']} is Ready, whose machine has lost {lost} GPUs")

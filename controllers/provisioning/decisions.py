"""A scheduling decision as JSON, in the shape of `gpu-provisioner schedule --json-lines`."""

from collections.abc import Mapping

import msgspec

from provisioner.api.requirements import Requirement, Requirements

from .solver.model import Decision, NewMachine
from .solver.reasons import quantities


class NewNodeClaim(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A NodeClaim to create. `price`: of the first instance type, USD an hour; None if it is not known."""

    node_pool: str
    pods: tuple[str, ...]
    instance_types: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    requests: Mapping[str, str]
    price: float | None


class DecisionOutput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`micros`: how long the decision took, in microseconds of wall time."""

    new_node_claims: tuple[NewNodeClaim, ...]
    existing: Mapping[str, tuple[str, ...]]
    errors: Mapping[str, str]
    micros: int


def output(decision: Decision, errors: Mapping[str, str], micros: int) -> DecisionOutput:
    """The decision for programs. `errors`: of pods that could not be decoded."""
    return DecisionOutput(
        new_node_claims=tuple(new_node_claim(machine) for machine in decision.machines),
        existing=decision.existing,
        errors={**errors, **decision.errors},
        micros=micros,
    )


def requirements(found: Requirements) -> tuple[Requirement, ...]:
    """Requirements as the NodeClaim has them; bounds become Gte and Lte."""
    entries = []
    for key, allowed in sorted(found.items()):
        bounds = (("Gte", allowed.least), ("Lte", allowed.most))
        entries += [
            Requirement(key=key, operator=operator, values=(str(bound),))
            for operator, bound in bounds
            if bound is not None
        ]
        if allowed.values or all(bound is None for _, bound in bounds):
            entries.append(
                Requirement(
                    key=key,
                    operator=allowed.operator,
                    values=tuple(sorted(allowed.values)),
                    min_values=allowed.min_values or None,
                )
            )
    return tuple(entries)


def new_node_claim(machine: NewMachine) -> NewNodeClaim:
    """A planned machine for programs."""
    # `registered` and `initialized` only decide which daemon pods count; a NodeClaim does not require them.
    wanted = {
        k: v
        for k, v in machine.requirements.items()
        if k not in ("karpenter.sh/registered", "karpenter.sh/initialized")
    }
    return NewNodeClaim(
        node_pool=machine.node_pool,
        pods=machine.pods,
        instance_types=machine.instance_types,
        requirements=requirements(wanted),
        requests=quantities(machine.requests),
        price=machine.price,
    )

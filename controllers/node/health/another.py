"""Whether another machine can be had in place of a broken one that can still run pods with GPUs.

Source: docs/reference/deletion-gate.md.
"""

from controllers.gate.gate import Place, no_other
from controllers.model.facts import Facts
from controllers.nodeclaim.lifecycle import limits


def place(f: Facts) -> Place:
    """The gate's answer. A machine that runs no pods with GPUs is not worth keeping, whatever can be had."""
    if f.unhealthy is None or not f.unhealthy.runs_gpus:
        return "Available"
    if lacking(f):
        return "Scarce"
    return "Unknown" if f.scarce is None else "Available"


def lacking(f: Facts) -> str:
    """Why none can be had; "" if nothing is known that prevents it."""
    return f.scarce or limits.exceeded(f)


def obstacle(f: Facts) -> str:
    """Why a machine is kept although its repair is due; "" if it is not kept for this."""
    match place(f):
        case "Scarce":
            return no_other(lacking(f))
        case "Unknown":
            return "it is not known whether another machine can be had"
        case _:
            return ""

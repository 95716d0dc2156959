"""`docs/reference/conditions.md` and `docs/troubleshooting/reasons.md`: tables of conditions, sections of reasons."""

from itertools import groupby

from provisioner.settings import OPTIONS, shown

from .explained import REASONS, Reason
from .markdown import code, page, table

SOURCE = "tools/reference/explained"

ORDER = {
    "Launched": "The machine exists in Azure.",
    "Registered": "The Node exists and belongs to the NodeClaim.",
    "Initialized": "The Node is usable, including its GPUs. It becomes False when the Node stops being usable.",
    "Ready": "Launched, Registered and Initialized are True. `kubectl wait` and KAITO use this condition.",
    "DisruptionReason": "Of a NodePool's machine: it is being replaced, or removed, and takes no new pods.",
    "Drifted": "Of a NodeClaim of a NodePool: the machine differs from what the NodePool would create now.",
    "Consolidatable": "Of a NodeClaim of a NodePool: the machine was quiet for `consolidateAfter`.",
    "Drained": "During termination: no pod that must be evicted remains on the Node.",
    "VolumesDetached": "During termination: no volume is attached to the machine.",
    "InstanceTerminating": "During termination: the agent pool is being deleted.",
    "ValidationSucceeded": "Of a NodePool, AgentPoolNodeClass or NodeOverlay: its fields are valid.",
    "NodeClassReady": "Of a NodePool: its AgentPoolNodeClass is Ready.",
    "NodeRegistrationHealthy": "Of a NodePool: its last NodeClaims became Nodes. Not part of Ready.",
    "Stalled": "Reconciles fail repeatedly. The condition is removed when one succeeds.",
}

INTRODUCTION = """\
Conditions behave as in Karpenter: the transition time changes only with the status, a message has at most 256 bytes,
and a NodeClaim always has `Ready`, `Launched`, `Registered` and `Initialized`. A message contains the cause, the
time of the transition (UTC) and the remedy, and does not change while the state lasts. When a state exceeds its
deadline, `; overdue: …` is appended to the message, a Warning Event is recorded, and a metric is incremented. A
deadline never deletes a machine by itself; rows of the repair policy do.

Each change of a status or a reason is also recorded as an [Event](events.md) with the same reason. The reason of
Launched and InstanceTerminating can also be an error code of ARM or AKS: see [Errors of Azure](errors.md)."""

DEADLINES = """\
## Deadlines

After these times, a state is reported as overdue. Each deadline is a [setting](settings.md)."""

TROUBLES = """\
The conditions of a NodeClaim contain the reason:

```console
$ kubectl describe nodeclaim NAME
```

A reason that is not listed here is an error code of ARM or AKS: see [Errors of Azure](../reference/errors.md)."""


def render() -> str:
    """The reference of every condition, status and reason."""
    parts = []
    for on, words in ORDER.items():
        rows = [
            [" or ".join(reason.statuses), f"[{code(reason.name)}](../troubleshooting/reasons.md#{anchor(reason.name)})"
             if reason.look else code(reason.name), reason.meaning]
            for reason in REASONS
            if reason.on == on
        ]  # fmt: skip
        parts += [f"## {on}\n\n{words}", table(["Status", "Reason", "Meaning"], rows)]
    deadlines = [
        [code(f"--{option.flag}"), code(shown(option.default)), option.help]
        for option in OPTIONS
        if option.flag.endswith("-deadline")
    ]
    return page(
        "Conditions", SOURCE, INTRODUCTION, *parts, DEADLINES, table(["Setting", "Default", "Duration"], deadlines)
    )


def render_troubles() -> str:
    """Meaning, diagnosis and remedy of every reason of a condition that is not True."""
    troubles = sorted((reason for reason in REASONS if reason.look), key=lambda reason: reason.name.casefold())
    named = [(name, list(group)) for name, group in groupby(troubles, key=lambda reason: reason.name)]
    index = table(["Condition", "Reasons"], [[on, ", ".join(map(_link, _on(on)))] for on in ORDER if _on(on)])
    return page("By reason", SOURCE, TROUBLES, index, *(_section(name, group) for name, group in named))


def _on(condition: str) -> list[str]:
    return list(dict.fromkeys(reason.name for reason in REASONS if reason.look and reason.on == condition))


def _link(name: str) -> str:
    return f"[{code(name)}](#{anchor(name)})"


def anchor(name: str) -> str:
    """The fragment that the site gives a heading of this name."""
    return name.lower()


def _section(name: str, group: list[Reason]) -> str:
    states: dict[tuple[str, str, str], list[str]] = {}
    for reason in group:
        state = f"{reason.on} {' or '.join(reason.statuses)}"
        states.setdefault((reason.meaning, reason.look, reason.remedy), []).append(state)
    parts = [
        f"*{'; '.join(on)}*\n\n{meaning}\n\n* **Check:** {look}\n* **Remedy:** {remedy}"
        for (meaning, look, remedy), on in states.items()
    ]
    return "\n\n".join([f"## {name}", *parts])

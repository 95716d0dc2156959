"""`docs/reference/conditions.md` and `docs/troubleshooting/reasons.md`: conditions as a table and as sections."""

from itertools import groupby

from provisioner.settings import OPTIONS
from provisioner.settings.model import shown

from .explained import REASONS, Reason
from .markdown import code, page, table

SOURCE = "tools/reference/explained"

ORDER = {
    "Launched": "Azure has the machine. `karpenter.sh/v1`'s own condition.",
    "Registered": "The machine is a Node, and the Node is the claim's.",
    "Initialized": "The Node is usable, GPUs included. Taken back when it stops being so.",
    "Ready": "The other three together; what `kubectl wait` and KAITO look at.",
    "Drained": "In a removal: no pod that has to leave is on the Node.",
    "VolumesDetached": "In a removal: no volume is attached to the machine.",
    "InstanceTerminating": "In a removal: the agent pool is being deleted.",
}

INTRODUCTION = """\
Conditions follow Karpenter's mechanics: a transition time moves only when the status changes, a message has at most 256
bytes, and a claim always has `Ready`, `Launched`, `Registered` and `Initialized`. A message has the cause first, then
since when (UTC), then what to do. While a state lasts, its text stays the same. A state that lasts longer than its
deadline gets `; overdue: …` at the end of its message, a Warning Event and a count in a metric; no deadline destroys a
machine.

Each change of a status or a reason is an [Event](events.md) too, under the same reason. On Launched and
InstanceTerminating a reason may also be ARM's or AKS's own code: see [Errors of Azure](errors.md)."""

DEADLINES = """\
## Deadlines

After these times a state is reported as overdue. Each is a [setting](settings.md)."""

TROUBLES = """\
Look the reason up that the claim shows:

```console
$ kubectl describe nodeclaim NAME
```

A reason that is not here is ARM's or AKS's own code: [Errors of Azure](../reference/errors.md)."""


def render() -> str:
    """The reference: every condition, status and reason."""
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
        "Conditions", SOURCE, INTRODUCTION, *parts, DEADLINES, table(["Setting", "Default", "Counts"], deadlines)
    )


def render_troubles() -> str:
    """Every reason that is not simply good: what it means, what to look at, what to do."""
    troubles = sorted((reason for reason in REASONS if reason.look), key=lambda reason: reason.name.casefold())
    named = [(name, list(group)) for name, group in groupby(troubles, key=lambda reason: reason.name)]
    index = table(["On", "Reasons"], [[on, ", ".join(_link(name) for name in _on(on))] for on in ORDER if _on(on)])
    return page("By reason", SOURCE, TROUBLES, index, *(_section(name, group) for name, group in named))


def _on(condition: str) -> list[str]:
    return list(dict.fromkeys(reason.name for reason in REASONS if reason.look and reason.on == condition))


def _link(name: str) -> str:
    return f"[{code(name)}](#{anchor(name)})"


def anchor(name: str) -> str:
    """The fragment that the site gives a heading of this name."""
    return name.lower()


def _section(name: str, group: list[Reason]) -> str:
    told: dict[tuple[str, str, str], list[str]] = {}
    for reason in group:
        said = f"{reason.on} {' or '.join(reason.statuses)}"
        told.setdefault((reason.meaning, reason.look, reason.remedy), []).append(said)
    parts = [
        f"*{'; '.join(on)}*\n\n{meaning}\n\n* **Look at:** {look}\n* **Do:** {remedy}"
        for (meaning, look, remedy), on in told.items()
    ]
    return "\n\n".join([f"## {name}", *parts])

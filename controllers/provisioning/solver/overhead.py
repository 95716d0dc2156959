"""The pods of DaemonSets that run on a machine, and take a part of it.

A daemon pod that is larger than the machine stays pending there, and other pods run beside it: whoever creates a
DaemonSet keeps nobody's pods from their machines. Daemon pods of which each fits, and not all together, exclude the
machine, as in Karpenter, unless every machine is excluded; then the largest ones that fit together count.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#how-daemon-pods-are-scheduled,
https://karpenter.sh/docs/concepts/scheduling/.
"""

from collections.abc import Iterable, Sequence

from provisioner.api.meta import Taint
from provisioner.api.requirements import Requirements, conflict
from provisioner.api.taints import untolerated

from .model import PodSpec, Resources
from .resources import total

Daemons = Sequence[PodSpec]


def expected(
    daemons: Iterable[PodSpec], taints: Sequence[Taint], known: Requirements, open_keys: Iterable[str], room: Resources
) -> Daemons:
    """Those whose pods an empty machine with this room takes, each for itself. `open_keys`: as in `conflict`."""
    keys = frozenset(open_keys)
    return [
        daemon
        for daemon in daemons
        if fit([daemon], room)
        and not untolerated(taints, daemon.tolerations, ignore_preferred=True)
        and any(not conflict(known, one, keys) for one in daemon.alternatives)
    ]


def fit(daemons: Daemons, room: Resources) -> bool:
    """Whether the machine has room for all. A device that it does not offer yet may come with its plugin."""
    return all(amount <= room[name] for name, amount in total(one.requests for one in daemons).items() if name in room)


def largest_together(daemons: Daemons, room: Resources) -> Daemons:
    """Those that fit together, beginning with the one that takes the largest share of any resource."""

    def share(daemon: PodSpec) -> float:
        shares = (amount / room[name] for name, amount in daemon.requests.items() if room.get(name))
        return max(shares, default=0.0)

    found = list[PodSpec]()
    for daemon in sorted(daemons, key=share, reverse=True):
        if fit([*found, daemon], room):
            found.append(daemon)
    return found

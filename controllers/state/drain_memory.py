"""What is remembered of a drain: what was read of the Node, who was asked to leave, and what the API server said.

Memory of one Node, begun with its first reading; what concerned pods that are gone goes with them.
"""

from datetime import datetime

from controllers.model.facts import Asked
from controllers.model.results import Evicted, ReadAttached
from controllers.model.steps import DeletePods, EvictPods, ReadDrain, ReadVolumes
from controllers.node.termination.pod_predicates import is_drainable, is_evictable
from provisioner.api.node import Node
from provisioner.api.pod import Pod

from .memory import DrainMemory, HeldMemory, Memory

# A budget may change its mind at any moment; of another refusal that is not to be expected.
BLOCKED_SECONDS = 5.0
FAILED_FIRST_SECONDS, FAILED_MOST_SECONDS = 2.0, 60.0


def drain_of(memory: Memory, node: Node, began: float) -> DrainMemory:
    """The memory of this Node's drain, begun now if there is none."""
    return memory.drains.setdefault(node.uid, DrainMemory(began_at=began))


def saw_pods(drain: DrainMemory, pods: tuple[Pod, ...], *, began: float, wall: datetime) -> None:
    """The Node's pods were read."""
    present = {pod.metadata.uid for pod in pods}
    drain.pods, drain.read_at, drain.unread = pods, began, None
    drain.evicted &= present
    drain.held = {uid: held for uid, held in drain.held.items() if uid in present}
    drain.had_evictable |= any(is_drainable(pod, wall) and is_evictable(pod, wall) for pod in pods)


def saw_volumes(drain: DrainMemory, outcome: ReadAttached, *, began: float) -> None:
    """What is attached to the Node was read."""
    drain.attachments, drain.kept = outcome.attachments, outcome.kept
    drain.attached_at, drain.attached_unread = began, None


def could_not_read(drain: DrainMemory, step: ReadDrain | ReadVolumes, words: str, *, now: float) -> None:
    """The API server would not say."""
    if isinstance(step, ReadDrain):
        drain.unread = _again(drain.unread, words, "read", now)
    else:
        drain.attached_unread = _again(drain.attached_unread, words, "read", now)


def asked_to_leave(drain: DrainMemory, step: EvictPods | DeletePods, outcome: Evicted, *, now: float) -> None:
    """Pods were asked to leave, or deleted: these are looked at again at once, for their new time to go."""
    asked: Asked = "evict" if isinstance(step, EvictPods) else "delete"
    if isinstance(step, EvictPods):
        drain.evicted |= outcome.asked | outcome.gone
    else:
        drain.read_at = None
    for uid, words in outcome.blocked.items():
        drain.held[uid] = HeldMemory(words=words, asked=asked, times=1, at=now, seconds=BLOCKED_SECONDS)
    for uid, words in outcome.failed.items():
        drain.held[uid] = _again(drain.held.get(uid), words, asked, now)
    for uid in outcome.asked | outcome.gone:
        drain.held.pop(uid, None)


def _again(before: HeldMemory | None, words: str, asked: Asked, now: float) -> HeldMemory:
    times = before.times + 1 if before is not None and before.asked == asked else 1
    seconds = min(FAILED_FIRST_SECONDS * 2.0 ** min(times - 1, 16), FAILED_MOST_SECONDS)
    return HeldMemory(words=words, asked=asked, times=times, at=now, seconds=seconds)

"""When the newest node images are read, on virtual time."""

import asyncio
from datetime import UTC, datetime

import pytest

from cloudprovider.errors import Retryable
from cloudprovider.interface import Instance, InstanceState, image_kind
from cloudprovider.watches import ImageWatch
from provisioner.simulator.loop import run
from tests.stories import run_by

from .arm import Arm

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
UBUNTU, LINUX = "AKSUbuntu-2204gen2containerd", "AKSAzureLinux-V3gen2"
OLD, NEW = "202602.01.0", "202603.01.0"
FORBIDDEN, FAILED = Retryable("AuthorizationFailed", "no", status=403), Retryable("ServerError", "no", status=500)
HOUR = 3600


def pool(name: str, kind: str = UBUNTU, **facts: object) -> Instance:
    return Instance(**{"name": name, "state": InstanceState.RUNNING, "image_version": f"{kind}-{OLD}", **facts})  # type: ignore[arg-type]


class Images(Arm):
    """A cloud that gives one answer after the other, and then the last one."""

    def __init__(self, answers: list[str | Retryable]) -> None:
        super().__init__()
        self.answers = answers
        self.reads: list[tuple[str, float]] = []

    async def latest_image(self, name: str) -> str:
        self.reads.append((name, asyncio.get_running_loop().time()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Retryable):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answers", "reads", "known"),
    [
        ([NEW], [0, 6 * HOUR], 0),
        ([OLD, NEW], [0, 6 * HOUR], 6 * HOUR),
        ([FORBIDDEN], [hour * HOUR for hour in range(10)], None),
        ([FAILED, NEW], [0, 300, 6 * HOUR + 300], 300),
        ([NEW, FAILED], [0, *range(6 * HOUR, 10 * HOUR, 300)], 0),
        ([""], [0, 6 * HOUR], None),
    ],
    ids=["six-hourly", "a release", "hourly without the right", "a failure", "the last image is kept", "none is named"],
)
@run_by(run, given=0, seed=1, epoch=EPOCH)
async def test_reads(answers: list[str | Retryable], reads: list[float], known: float | None) -> None:
    """In ten hours. `known`: when the newest image is known."""
    cloud, began = Images([*answers]), asyncio.get_running_loop().time()
    changes: list[float] = []

    def elapsed() -> float:
        return round(asyncio.get_running_loop().time() - began)

    watch = ImageWatch(cloud, pools=lambda: [pool("a"), pool("b")])
    watch.add_event_handler(lambda: changes.append(elapsed()))
    task = asyncio.get_running_loop().create_task(watch.run())
    await asyncio.sleep(10 * HOUR - 1)
    task.cancel()
    assert [round(at - began) for _, at in cloud.reads] == reads
    assert len({name for name, _ in cloud.reads}) == 1
    assert watch.newest(f"{UBUNTU}-{OLD}") == (NEW if known is not None else "")
    assert changes[-1:] == ([known] if known is not None else [])


@run_by(run, given=0, seed=1, epoch=EPOCH)
async def test_one_pool_of_each_kind() -> None:
    """Pools that Azure creates, changes or has stopped are not read; a new kind is read within a minute."""
    creating = pool("d", "other", state=InstanceState.CREATING)
    pools = [pool("a"), pool("b"), creating, pool("e", "busy", raw_state="Updating"), pool("f", image_version="")]
    cloud = Images([NEW])
    watch = ImageWatch(cloud, pools=lambda: pools)
    task = asyncio.get_running_loop().create_task(watch.run())
    await asyncio.sleep(HOUR)
    assert [name for name, _ in cloud.reads] == ["b"]
    pools.append(pool("c", LINUX))
    await asyncio.sleep(61)
    task.cancel()
    assert [name for name, _ in cloud.reads] == ["b", "c"]
    assert watch.newest(f"other-{OLD}") == ""


@pytest.mark.parametrize(
    ("image", "kind"), [(f"{UBUNTU}-202405.03.0", UBUNTU), ("AKSUbuntu-1804-2021.02.17", "AKSUbuntu-1804"), ("", "")]
)
def test_kinds(image: str, kind: str) -> None:
    assert image_kind(image) == kind

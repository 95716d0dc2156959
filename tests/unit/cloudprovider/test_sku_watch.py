"""When the VM sizes of the subscription are read, on virtual time."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from cloudprovider.errors import Retryable
from cloudprovider.interface import ResourceSku
from cloudprovider.watches import SkuWatch
from provisioner.simulator.loop import run
from tests.stories import run_by

from .arm import Arm

T4 = {"standard_nc4as_t4_v3": ResourceSku(name="Standard_NC4as_T4_v3", family="f", vcpus=4)}
FORBIDDEN, FAILED = Retryable("AuthorizationFailed", "no", status=403), Retryable("ServerError", "no", status=500)
Answer = Mapping[str, ResourceSku] | Retryable


class Sizes(Arm):
    """A cloud that gives one answer after the other, and then the last one."""

    def __init__(self, answers: list[Answer]) -> None:
        super().__init__()
        self.answers = answers
        self.reads: list[float] = []

    async def skus(self) -> Mapping[str, ResourceSku]:
        self.reads.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Retryable):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answers", "reads", "known"),
    [
        ([T4], [0, 86_400], T4),
        ([FORBIDDEN], [hour * 3600 for hour in range(30)], None),
        ([FAILED, T4], [0, 300, 86_700], T4),
        ([T4, FAILED, FORBIDDEN], [0, 86_400, 86_700, 90_300, 93_900, 97_500, 101_100, 104_700], T4),
        ([{}, T4], [0, 300, 86_700], T4),
    ],
    ids=["daily", "hourly without the right", "a failure", "the last list is kept", "an empty list is not used"],
)
@run_by(run, given=0, seed=1, epoch=datetime(2026, 3, 1, tzinfo=UTC))
async def test_reads(answers: list[Answer], reads: list[float], known: Mapping[str, ResourceSku] | None) -> None:
    """In thirty hours."""
    cloud = Sizes([*answers])
    watch = SkuWatch(cloud)
    assert not watch.done
    began = asyncio.get_running_loop().time()
    task = asyncio.get_running_loop().create_task(watch.run())
    await asyncio.sleep(30 * 3600 - 1)
    task.cancel()
    assert [round(at - began) for at in cloud.reads] == reads
    assert (watch.skus, watch.done) == (known, True)

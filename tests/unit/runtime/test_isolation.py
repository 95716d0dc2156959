"""An error of one object stays with it; what no object causes is not caught."""

import asyncio

import pytest

from provisioner.runtime.isolation import Isolation
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.metrics import Metrics

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(
    "error", [ValueError("x" * 1000), OverflowError("no"), KeyError("k"), IndexError(), TypeError(), RecursionError()]
)
async def test_an_error_of_an_object_is_counted_and_reported(error: Exception) -> None:
    """The message for users has the cause, is short, and the block ends."""
    metrics, reported = Metrics(), list[str]()
    isolation = Isolation(metrics.object_errors)
    for _ in range(2):
        with isolation.of("NodePool", "gpu", "drift", reported.append):
            raise error
    assert metrics.registry.get_sample_value("gpu_provisioner_object_errors_total", {"kind": "NodePool"}) == 2
    assert reported[0].startswith(f"left out of drift: {type(error).__name__}: ")
    assert len(reported[0]) < 330


@pytest.mark.parametrize("error", [KubeError(0, "Timeout", "t"), asyncio.CancelledError(), MemoryError(), OSError()])
async def test_other_errors_pass(error: BaseException) -> None:
    """A failed request is repeated, and a cancellation ends the task."""
    metrics = Metrics()
    with pytest.raises(type(error)), Isolation(metrics.object_errors).of("NodePool", "gpu", "drift"):
        raise error
    assert metrics.registry.get_sample_value("gpu_provisioner_object_errors_total", {"kind": "NodePool"}) is None


async def test_the_same_error_of_an_object_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    """With the object and the traceback; another error is another line."""
    isolation = Isolation(Metrics().object_errors)
    for text in ("one", "one", "other"):
        with isolation.of("NodePool", "gpu", "drift"):
            raise ValueError(text)
    shown = capsys.readouterr().out
    assert shown.count("an object is left out") == 2
    assert shown.count("object=gpu") == 2
    assert "Traceback" in shown

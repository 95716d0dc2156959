"""Computations beside the event loop."""

import asyncio
import gc
import threading

import pytest

from provisioner.runtime.compute import ThreadCompute, inline

pytestmark = pytest.mark.asyncio


async def test_the_loop_goes_on_during_a_computation() -> None:
    """A computation that ends only after a callback of the loop has run."""
    released = threading.Event()
    asyncio.get_running_loop().call_later(0.01, released.set)
    assert await ThreadCompute()(lambda: released.wait(30.0))


async def test_computations_take_turns() -> None:
    """After a cancellation the next one begins when the cancelled one has ended."""
    compute, released, order = ThreadCompute(), threading.Event(), list[str]()

    def first() -> None:
        released.wait(30.0)
        order.append("first")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await compute(first)
    asyncio.get_running_loop().call_later(0.01, released.set)
    await compute(lambda: order.append("second"))
    assert order == ["first", "second"]


async def test_errors_reach_the_caller() -> None:
    """A failed computation raises where it was requested."""
    for compute in (ThreadCompute(), inline):
        with pytest.raises(ZeroDivisionError):
            await compute(lambda: 1 // 0)


async def test_the_collector_is_paused_for_a_computation_only() -> None:
    """Also for one that fails: a collection examines every value of a decision, and stops the loop meanwhile."""
    compute = ThreadCompute()
    assert not await compute(gc.isenabled)
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        await compute(lambda: 1 // 0)
    assert gc.isenabled()

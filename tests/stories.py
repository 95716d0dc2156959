"""A decorator that makes a test of an async function, for runners with a loop or a world of their own."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

Story = Callable[..., Coroutine[Any, Any, object]]


def run_by(run: Callable[..., object], *, given: int = 1, **options: Any) -> Callable[[Story], Callable[..., None]]:
    """The test calls `run(story, **options)`, which awaits the story with its first `given` parameters.

    The story's other parameters are parameters and fixtures of the test.
    """

    def decorate(story: Story) -> Callable[..., None]:
        own = list(inspect.signature(story).parameters.values())[given:]

        @functools.wraps(story)
        def test(*positional: Any, **parameters: Any) -> None:  # Hypothesis passes some by position
            parameters.update(zip((parameter.name for parameter in own), positional, strict=False))
            run(functools.partial(story, **parameters), **options)

        test.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        return test

    return decorate

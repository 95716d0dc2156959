"""The Karpenter controller on whose behalf the current task acts: the `controller` label of metrics.

One name per task; a reconcile starts without one. No decision depends on it.
"""

from contextvars import ContextVar

_CONTROLLER: ContextVar[str] = ContextVar("controller", default="")


def set_controller(name: str) -> None:
    """Set the controller of the current task; "" for none."""
    _CONTROLLER.set(name)


def current_controller() -> str:
    """The controller of the current task, "" if none is set."""
    return _CONTROLLER.get()

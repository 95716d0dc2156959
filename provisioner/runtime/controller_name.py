"""Which rule acts: the `controller` label of what is counted on its behalf.

One name per task at a time; a controller's pass begins without one. Only names come and go here: nothing is
decided by them.
"""

from contextvars import ContextVar

_RULE: ContextVar[str] = ContextVar("rule", default="")


def set_controller(rule: str) -> None:
    """From now on this task acts for `rule`; "" for none."""
    _RULE.set(rule)


def current_controller() -> str:
    """The rule that this task acts for, "" if none was named."""
    return _RULE.get()

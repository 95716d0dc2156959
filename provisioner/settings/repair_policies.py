"""The setting of rows of the repair policy: a list of objects in JSON or YAML, as the chart and a file have it.

A row names one of the program's signals, or a condition of Nodes with its status; how long it is tolerated; what is
done then; and how long the repair of a machine that still works waits for its pods. Unknown names and values are
errors, because a row without effect would be found only when a machine fails.

Source: docs/references/karpenter.md#node-repair.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from provisioner.api.repair_policy import ACTIONS, AGREEMENTS, PODS_SECONDS, SIGNALS, RepairPolicy
from provisioner.api.time import format_duration, parse_duration

from . import bounded_yaml
from .kinds import Kind

KEYS = ("signal", "condition", "status", "toleration", "action", "agreement", "waitForPods")
STATUSES = ("True", "False", "Unknown")
MOST_ROWS = 100
MOST_SECONDS = 7 * 24 * 3600.0
# The type of a condition: https://kubernetes.io/docs/reference/using-api/api-concepts/ (a qualified name).
_CONDITION = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def read(written: str) -> tuple[RepairPolicy, ...]:
    """The rows. Raises ValueError that names the row, the field and the value."""
    try:
        documents = list(bounded_yaml.load_all(written))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError("it is not a list in JSON or YAML") from error
    given = documents[0] if len(documents) == 1 else None
    if not isinstance(given, list) or len(given) > MOST_ROWS:
        raise ValueError(f"it is not a list of at most {MOST_ROWS} rows")
    rows = tuple(_row(number, row) for number, row in enumerate(given))
    seen = set[tuple[object, ...]]()
    for number, row in enumerate(rows):
        same = (row.same_signal, row.action)
        if same in seen:
            raise ValueError(f"[{number}]: a second row for {row.name} with the action {row.action}")
        seen.add(same)
    return rows


def text_of(rows: tuple[RepairPolicy, ...]) -> str:
    """The rows as they can be written in the environment."""
    return json.dumps([_written(row) for row in rows]) if rows else ""


def _row(number: int, row: object) -> RepairPolicy:
    if not isinstance(row, Mapping):
        raise ValueError(f"[{number}]: {row!r} is not an object")  # noqa: TRY004 - a mistake of the user
    unknown = sorted(str(key) for key in row if key not in KEYS)
    if unknown:
        raise ValueError(f"[{number}].{unknown[0]}: there is no such field, only {', '.join(KEYS)}")
    signal, condition = _text(number, row, "signal"), _text(number, row, "condition")
    if bool(signal) == bool(condition):
        raise ValueError(f"[{number}]: it names no signal: set either signal ({', '.join(SIGNALS)}) or condition")
    if signal:
        _one_of(number, "signal", signal, SIGNALS)
        if "status" in row:
            raise ValueError(f"[{number}].status: {row['status']!r} belongs to a condition, not to the signal {signal}")
    elif _CONDITION.fullmatch(condition) is None:
        raise ValueError(f"[{number}].condition: {condition!r} is not the type of a condition")
    elif condition == "Ready":
        raise ValueError(f"[{number}].condition: 'Ready' has the signal NotReady; set signal instead")
    status = _text(number, row, "status") or "True"
    action, agreement = _text(number, row, "action"), _text(number, row, "agreement")
    _one_of(number, "status", status, STATUSES)
    _one_of(number, "action", action, ACTIONS)
    if agreement:
        _one_of(number, "agreement", agreement, AGREEMENTS)
    if action == "RestartPlugin" and signal not in ("GpuGone", "GpuPartial"):
        raise ValueError(f"[{number}].action: 'RestartPlugin' needs the signal GpuGone or GpuPartial")
    made = RepairPolicy(
        signal=signal,
        condition=condition,
        status=status,
        seconds=_seconds(number, row, "toleration"),
        action=action,  # type: ignore[arg-type]
        agreement=agreement,  # type: ignore[arg-type]
    )
    if action == "Cordon" and not made.serves:
        raise ValueError(f"[{number}].action: 'Cordon' needs a machine that runs pods, not the signal {signal}")
    if "waitForPods" not in row:
        return made
    if action != "Replace" or not made.works:
        raise ValueError(f"[{number}].waitForPods: it needs the action Replace, and a machine that runs pods")
    return msgspec.structs.replace(made, pods_seconds=_seconds(number, row, "waitForPods"))


def _text(number: int, row: Mapping[Any, Any], key: str) -> str:
    value = row.get(key)
    if isinstance(value, bool) and key == "status":
        return str(value)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"[{number}].{key}: {value!r} is not a text")
    return value or ""


def _one_of(number: int, key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"[{number}].{key}: {value!r} is not one of {', '.join(filter(None, allowed))}")


def _seconds(number: int, row: Mapping[Any, Any], key: str) -> float:
    value = row.get(key)
    found = parse_duration(value) if isinstance(value, str) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value)
    if found is None or not 0 <= found <= MOST_SECONDS:
        raise ValueError(f"[{number}].{key}: {value!r} is not a duration from 0s to 7 days, such as 10m")
    return found


def _written(row: RepairPolicy) -> dict[str, str]:
    subject = {"signal": row.signal} if row.signal else {"condition": row.condition, "status": row.status}
    agreement = {"agreement": row.agreement} if row.agreement else {}
    waits = {"waitForPods": format_duration(row.pods_seconds)} if row.pods_seconds != PODS_SECONDS else {}
    return {**subject, "toleration": format_duration(row.seconds), "action": row.action, **agreement, **waits}


REPAIR_POLICIES = Kind(
    read=read,
    expects="a list of rows such as {condition: AcceleratedHardwareReady, status: 'False', toleration: 10m,"
    " action: Replace} or {signal: GpuGone, toleration: 30m, action: Replace}",
)

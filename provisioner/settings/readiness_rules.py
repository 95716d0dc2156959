"""The kind of the setting with readiness rules: a JSON list of the rules of an AgentPoolNodeClass, with selectors.

Source: docs/references/kubernetes.md#readiness-rules.
"""

from provisioner.api.readiness import SelectedReadinessRule
from provisioner.api.readiness_errors import errors

from .json_values import read_json
from .kinds import Kind


def _read(written: str) -> tuple[SelectedReadinessRule, ...]:
    return read_json(written, tuple[SelectedReadinessRule, ...], lambda rules: errors(rules, ""))


READINESS_RULES = Kind(
    read=_read,
    expects='a JSON list such as [{"taint":{"key":"example.com/wait","effect":"NoSchedule"},'
    '"until":{"condition":{"type":"GPUReady"}}}]',
)

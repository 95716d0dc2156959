"""Tolerations as doctor prints them: what the API server reads of them is what the taint has."""

import pytest
import yaml

from controllers.node.health.placement import snippet
from provisioner.api.pod import Toleration


@pytest.mark.parametrize("text", ["on", "8", "null", "true", "1e3", "2026-01-01", "0x10", "sku", "nvidia.com/gpu"])
def test_keys_and_values_are_text(text: str) -> None:
    """Also those that YAML reads as another type."""
    wanted = Toleration(key=text, operator="Equal", value=text, effect="NoSchedule")
    (found,) = yaml.safe_load("\n".join(snippet([wanted])))["tolerations"]
    assert found == {"key": text, "operator": "Equal", "value": text, "effect": "NoSchedule"}

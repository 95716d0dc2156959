"""Tags of an agent pool: those of all pools, of its node class, and the controller's."""

from datetime import UTC, datetime

import pytest

from cloudprovider.azure.agentpool import to_agent_pool
from cloudprovider.errors import Rejected
from cloudprovider.interface import Offering
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta
from provisioner.api.nodeclass import TAGS_MAX, AgentPoolNodeClass, NodeClassSpec
from provisioner.settings import SettingsError, load
from tests.unit.builders import SIZE, claim

NOW = datetime(2026, 3, 1, tzinfo=UTC)
REQUIRED = {"ARM_SUBSCRIPTION_ID": "s", "ARM_RESOURCE_GROUP": "rg", "AZURE_CLUSTER_NAME": "aks"}


def tags_of(tags: dict[str, str], own: dict[str, str] | None = None) -> dict[str, str]:
    """The tags of the body of a PUT; `own`: of an AgentPoolNodeClass."""
    of_class = AgentPoolNodeClass(metadata=ObjectMeta(name="c"), spec=NodeClassSpec(tags=own)) if own else None
    body = to_agent_pool(claim(), Offering(size=SIZE), now=NOW, node_class=of_class, tags=tags)
    found: dict[str, str] = body["properties"]["tags"]
    return found


def test_a_claim_without_a_node_class_of_ours_has_the_tags_of_all_pools() -> None:
    """A claim of KAITO cannot state tags; the controller's own cannot be replaced."""
    forged = {"cost-center": "42", labels.TAG_CLAIM_UID: "forged"}
    found = tags_of(forged)
    assert found["cost-center"] == "42"
    assert found[labels.TAG_CLAIM_UID] == claim().uid


def test_the_node_class_takes_precedence() -> None:
    """Azure ignores the case of keys, so that one of two such keys is sent."""
    found = tags_of({"Team": "all", "cost-center": "42"}, {"team": "ml"})
    assert {key: value for key, value in found.items() if not key.startswith("gpu-provisioner")} == {
        "cost-center": "42",
        "team": "ml",
    }


def test_too_many_tags_are_refused_before_a_request() -> None:
    """The node class is named, with the number of tags and the setting."""
    own = {f"k{number}": "v" for number in range(TAGS_MAX)}
    with pytest.raises(Rejected) as refused:
        tags_of({"cost-center": "42"}, own)
    assert "AGENT_POOL_TAGS it has 48 tags, and at most 47 are possible" in str(refused.value)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("[]", "Expected `object`"),
        ("{", "it is not JSON"),
        ('{"a": 1}', "Expected `str`"),
        ('{"a/b": "x"}', "none of"),
        ('{"": "x"}', "1 to 512 characters"),
        ('{"gpu-provisioner_claim": "x"}', "are reserved"),
        ('{"Microsoft.x": "x"}', "are reserved"),
        ('{"a": "x", "A": "y"}', "differ only in case"),
        ('{"a": "' + "x" * 257 + '"}', "at most 256 characters"),
        ("{" + ",".join(f'"k{number}": "v"' for number in range(21)) + "}", "at most 20 are possible"),
    ],
)
def test_invalid_tags_are_refused_at_the_start(written: str, why: str) -> None:
    """The setting, the key and the remedy are named."""
    with pytest.raises(SettingsError) as refused:
        load({}, {**REQUIRED, "AGENT_POOL_TAGS": written}, acts=False)
    (error,) = refused.value.errors
    assert error.field == "AGENT_POOL_TAGS"
    assert why in error.message


def test_the_setting_is_a_json_object() -> None:
    """As the chart writes it."""
    settings = load({}, {**REQUIRED, "AGENT_POOL_TAGS": '{"cost-center":"42"}'}, acts=False)
    assert settings.agent_pool_tags == {"cost-center": "42"}

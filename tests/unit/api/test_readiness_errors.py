"""Validation of readiness rules: the same in an AgentPoolNodeClass and in the settings."""

from typing import Any

import msgspec
import pytest

from controllers.nodeclass.validation import errors
from provisioner.api.nodeclass import NodeClassSpec
from provisioner.settings.structured import READINESS_RULES

Json = dict[str, Any]
TAINT = {"key": "example.com/wait", "effect": "NoSchedule"}
UNTIL = {"condition": {"type": "GPUReady"}}
OBJECT = {"group": "gkm.io", "version": "v1alpha1", "resource": "gkmcachenodes", "jsonPath": "{.status.nodeName}"}
RULE = {"taint": TAINT, "until": UNTIL}


def _rule(**changed: Any) -> Json:
    return {**RULE, **changed}


INVALID = [
    ([_rule(taint={**TAINT, "key": "readiness.k8s.io/gpu"})], "[0].taint.key: 'readiness.k8s.io/gpu': it belongs to"),
    ([_rule(taint={**TAINT, "key": "karpenter.sh/x"})], "[0].taint.key: 'karpenter.sh/x': it belongs to"),
    ([_rule(taint={**TAINT, "key": "a b"})], "[0].taint.key: 'a b': it is not a key of a taint"),
    ([_rule(taint={**TAINT, "value": "a b"})], "[0].taint.value: 'a b': it is not a value"),
    (
        [_rule(taint={**TAINT, "effect": "Never"})],
        "[0].taint.effect: 'Never': it is not an effect of a taint; set it to",
    ),
    ([RULE, RULE], "[1].taint: 'example.com/wait:NoSchedule': a rule before it is the same; remove one of them"),
    (
        [RULE, _rule(taint={**TAINT, "value": "b"})],
        "[1].taint.value: 'b': a rule before it has this taint with another",
    ),
    ([_rule(timeoutSeconds=0)], "[0].timeoutSeconds: '0': it is out of range; set it to 30 to 86400"),
    ([_rule(onTimeout="Delete")], "[0].onTimeout: 'Delete': it is not supported; set it to Keep, Release, Replace"),
    ([_rule(until={})], "[0].until: '': it does not name exactly one condition; set exactly one of"),
    ([_rule(until={**UNTIL, "resource": {"name": "a/b"}})], "[0].until: 'condition, resource': it does not name"),
    ([_rule(until={"condition": {"type": "a b"}})], "[0].until.condition.type: 'a b': it is not a type"),
    (
        [_rule(until={"condition": {"type": "A", "status": "Yes"}})],
        "[0].until.condition.status: 'Yes': it is not a status",
    ),
    ([_rule(until={"resource": {"name": "gpu"}})], "[0].until.resource.name: 'gpu': it is not an extended resource"),
    ([_rule(until={"resource": {"name": "a/b", "count": 0}})], "[0].until.resource.count: '0': it is out of range"),
    ([_rule(until={"devices": {"driver": "a b"}})], "[0].until.devices.driver: 'a b': it is not a DRA driver"),
    ([_rule(until={"devices": {"driver": "a.b", "count": 0}})], "[0].until.devices.count: '0': it is out of range"),
    (
        [_rule(until={"pod": {"namespace": "", "labelSelector": "a=b"}})],
        "[0].until.pod: '': namespace or labelSelector",
    ),
    ([_rule(until={"object": {**OBJECT, "jsonPath": ".a["}})], "[0].until.object.jsonPath: '.a[': '[' at character 3"),
    (
        [_rule(until={"object": {**OBJECT, "jsonPath": ".kind"}})],
        "[0].until.object.jsonPath: '.kind': it does not start",
    ),
    ([_rule(until={"object": {**OBJECT, "version": "a/b"}})], "[0].until.object.version: 'a/b': it is not part"),
    (
        [_rule(until={"object": {**OBJECT, "equals": "a", "oneOf": ["b"]}})],
        "[0].until.object.oneOf: 'b': equals is set",
    ),
    (
        [_rule(taint={**TAINT, "key": f"k{number}"}) for number in range(9)],
        "'9': there are too many rules; leave at most 8",
    ),
]


@pytest.mark.parametrize(("rules", "words"), INVALID)
def test_an_invalid_rule_names_field_value_and_remedy(rules: list[Json], words: str) -> None:
    """An object that another version of the CRD accepted, and the setting, are refused with the same words."""
    (found,) = errors(msgspec.convert({"readiness": rules}, NodeClassSpec))
    assert str(found).removeprefix("spec.readiness").removeprefix(": ").startswith(words)
    assert found.remedy
    with pytest.raises(ValueError, match=r".") as refused:
        READINESS_RULES.read(msgspec.json.encode(rules).decode())
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("[{", "it is not JSON"),
        ("{}", "Expected `array`"),
        ('[{"until": {}}]', "missing required field `taint`"),
        (
            '[{"taint": {"key": "a", "effect": "NoSchedule"}, "until": {"condition": {"kind": "A", "type": "A"}},'
            ' "onTimeOut": "Keep"}]',
            "[0].until.condition.kind: there is no such field; [0].onTimeOut: there is no such field",
        ),
    ],
)
def test_a_setting_that_is_not_a_list_of_rules_is_refused(written: str, words: str) -> None:
    """A misspelled field would be a rule that nobody wants."""
    with pytest.raises(ValueError, match=r".") as refused:
        READINESS_RULES.read(written)
    assert words in str(refused.value)


def test_valid_rules_are_read_with_their_defaults() -> None:
    """The setting has selectors besides."""
    rules: list[Json] = [RULE, _rule(taint={**TAINT, "key": "b"}, until={"object": {**OBJECT, "oneOf": ["a", "b"]}})]
    assert not list(errors(msgspec.convert({"readiness": rules}, NodeClassSpec)))
    (first, second) = READINESS_RULES.read(
        msgspec.json.encode([{**rules[0], "claimSelector": {"a": "b"}}, rules[1]]).decode()
    )
    assert (first.timeout_seconds, first.on_timeout, dict(first.claim_selector)) == (1800, "Keep", {"a": "b"})
    assert second.until.object is not None
    assert second.until.object.allowed == ("a", "b")

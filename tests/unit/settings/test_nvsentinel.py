"""The setting with the resources of NVSentinel: what is accepted, and which mistakes are named."""

import pytest

from provisioner.api.nvsentinel import NVSentinel
from provisioner.settings import shown

from .loading import loaded, the_error


def test_it_is_disabled_unless_it_is_set() -> None:
    """An empty object enables it with all defaults."""
    assert loaded().nvsentinel is None
    assert loaded(NVSENTINEL="{}").nvsentinel == NVSentinel()
    given = '{"group": "nvsentinel.nvidia.com", "rebootResource": ""}'
    assert loaded(NVSENTINEL=given).nvsentinel == NVSentinel(group="nvsentinel.nvidia.com", reboot_resource="")
    assert shown(loaded(NVSENTINEL=given).nvsentinel) == '{"group":"nvsentinel.nvidia.com","rebootResource":""}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("true", "object"),
        ("{", "it is not JSON"),
        ('{"kind": "TerminateNode"}', ".kind: there is no such field"),
        ('{"terminateResource": ""}', 'terminateResource: ""'),
        ('{"group": "NVIDIA"}', 'group: "NVIDIA"'),
        ('{"rebootResource": "Reboot Nodes"}', "rebootResource"),
        ('{"terminateConditionType": "Node Terminated"}', "such as NodeTerminated"),
    ],
)
def test_a_mistake_is_named(text: str, words: str) -> None:
    """With the field, the value and a remedy."""
    error = the_error(NVSENTINEL=text)
    assert error.field == "NVSENTINEL"
    assert words in error.message

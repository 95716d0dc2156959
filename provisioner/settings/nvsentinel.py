"""The kind of the setting with the resources of NVSentinel: a JSON object; what it lacks has defaults.

Source: docs/references/kubernetes.md#nvsentinel.
"""

import re
from collections.abc import Iterator

from provisioner.api.nvsentinel import NVSentinel

from .json_values import read_json
from .kinds import Kind

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_CONDITION_TYPE = re.compile(r"([-.a-z0-9]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _read(written: str) -> NVSentinel:
    return read_json(written, NVSentinel, _errors)


def _errors(found: NVSentinel) -> Iterator[str]:
    names = {"group": found.group, "version": found.version, "terminateResource": found.terminate_resource}
    if found.reboot_resource:
        names["rebootResource"] = found.reboot_resource
    for field, value in names.items():
        if _NAME.fullmatch(value) is None:
            yield f'{field}: "{value}" is no name of the API: use lower case letters, digits, "-" and "."'
    types = {
        "terminateConditionType": found.terminate_condition_type,
        "rebootConditionType": found.reboot_condition_type,
    }
    for field, value in types.items():
        if _CONDITION_TYPE.fullmatch(value) is None:
            yield f'{field}: "{value}" is no type of a condition: use one such as NodeTerminated'


NVSENTINEL = Kind(read=_read, expects='a JSON object such as {"version":"v1alpha1"}; {} for all defaults')

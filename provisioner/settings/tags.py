"""The setting of tags for all agent pools, as a JSON object of texts, such as an Azure Policy demands.

Source: https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/tag-resources (limits of tags),
docs/references/agent-pools.md.
"""

import re
from collections.abc import Iterator, Mapping

from .json_values import read_json
from .kinds import Kind

# Of the 50 tags of a resource, three are the controller's, and a node class may have its own.
TAGS_MAX = 20
KEY_CHARACTERS, VALUE_CHARACTERS = 512, 256
_FORBIDDEN = re.compile(r"[<>%&\\?/\x00-\x1f\x7f]")
_RESERVED = re.compile(r"gpu-provisioner_|microsoft|azure|windows", re.IGNORECASE)


def _errors(tags: Mapping[str, str]) -> Iterator[str]:
    if len(tags) > TAGS_MAX:
        yield f"it has {len(tags)} tags, and at most {TAGS_MAX} are possible: remove some"
    if len({key.casefold() for key in tags}) < len(tags):
        yield "two keys differ only in case, which Azure ignores: keep one of them"
    for key, value in tags.items():
        if not 0 < len(key) <= KEY_CHARACTERS or _FORBIDDEN.search(key):
            yield f"key {key[:64]!r}: use 1 to {KEY_CHARACTERS} characters, none of < > % & \\ ? /"
        elif _RESERVED.match(key):
            yield f"key {key[:64]!r}: the prefixes gpu-provisioner_, microsoft, azure and windows are reserved"
        if len(value) > VALUE_CHARACTERS:
            yield f"value of {key[:64]!r}: use at most {VALUE_CHARACTERS} characters"


def _read(written: str) -> Mapping[str, str]:
    return read_json(written, dict[str, str], _errors)


TAGS = Kind(read=_read, expects='a JSON object of texts, such as {"cost-center": "42"}')

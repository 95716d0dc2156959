"""What to write instead of a value that a schema refuses, by the pattern, the type or the values of the schema.

The API server states no remedies. A pattern without an entry has none here; a test lists those of the CRDs.
"""

import json
from collections.abc import Sequence
from difflib import get_close_matches

# A prefix of a key, and a part of a name.
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME = "[A-Za-z0-9][-A-Za-z0-9_.]*"
_NUMBER = r"([0-9]+(\.[0-9]*)?)|(\.[0-9]+)"
_LABEL_VALUE = "use letters, digits, '-', '_' and '.', with a letter or digit at both ends, at most 63 characters"
_KEY = "write a name such as example.com/team: letters, digits, '-', '_' and '.', after a domain in lower case and '/'"
_OF_PATTERN = {
    r"^(([0-9]+(s|m|h))+|Never)$": "write hours, minutes and seconds, such as 1h30m, or 720h for 30 days, or Never",
    r"^([0-9]+(s|m|h))+$": "write hours, minutes and seconds, such as 1h30m, or 24h for a day",
    r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$": "write hours and minutes, such as 8h or 1h30m",
    r"^((100|[0-9]{1,2})%|[0-9]+)$": "write a number such as 5, or a percentage such as 20%, without a space",
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$": (
        "write five fields of cron or one of @hourly, @daily, @weekly, @monthly, @yearly"
    ),
    rf"^(\+|-)?({_NUMBER})(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?({_NUMBER})))?$": (
        "write a quantity such as 8, 500m or 128Gi"
    ),
    rf"^(({_NAME})?[A-Za-z0-9])?$": _LABEL_VALUE,
    rf"^({_DOMAIN}(\/))?({_NAME})?[A-Za-z0-9]$": _KEY,
    rf"^({_DOMAIN}/)?(({_NAME})?[A-Za-z0-9])$": _KEY,
    rf"^{_DOMAIN}$": (
        "use lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
    ),
    r"^[^/]*$": "write the group without a version, such as gpu-provisioner.sh",
    r"^[^/]+/[^/]+$": "write the name of an extended resource with its domain, such as nvidia.com/gpu",
    r"^\d+(\.\d+)?$": 'write USD an hour as text, such as "3.67"',
    r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$": (
        'write a sign and USD an hour, or a sign and a percentage from -100%, as text, such as "-0.5" or "-12%"'
    ),
    r"^(@hourly|@daily|@midnight|@weekly|@monthly|@yearly|@annually|\S+(\s+\S+){4})$": (
        "write five fields of cron, such as 0 20 * * mon-fri, or one of @hourly, @daily, @weekly, @monthly, @yearly"
    ),
    r"^([0-9]+h)?([0-9]+m)?(0s)?$": "write hours and minutes, such as 8h or 1h30m",
    r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$": "write a name of the IANA time zone database, such as Europe/Berlin",
}  # fmt: skip

# Of the rules whose message states none, by the end of the message.
_OF_RULE = {
    "'schedule' must be set with 'duration'": "set both of them, or none",
    "only 'limits.nodes' is supported on static NodePools": "remove the other limits, or replicas",
    "'weight' is not supported on static NodePools": "remove weight, or replicas",
    "must have a value defined": "add values, such as values: [on-demand]",
    "must have a single positive integer value": 'write one whole number in quotes, such as values: ["4"]',
    "must have at least that many values specified in the 'values' field": "add values, or lower minValues",
    "cannot set both 'price' and 'priceAdjustment'": "remove one of them",
    "invalid resource restricted": "remove cpu, memory, ephemeral-storage and pods",
    "may not be empty": "add it",
    "AKS cannot partition GPUs without its driver": "set driver to Install, or remove migProfile",
    "requires sharedReplicas of 2 or more": "set sharedReplicas to 2 or more, or remove sharedResource",
}


def of_rule(message: str) -> str:
    """What to write instead of what a rule with this message refuses; "" for a rule without an entry."""
    return next((remedy for end, remedy in _OF_RULE.items() if message.endswith(end)), "")


def of_pattern(pattern: str) -> str:
    """What a value that matches the pattern looks like; "" for a pattern without an entry."""
    return _OF_PATTERN.get(pattern, "")


def of_type(kinds: Sequence[str], value: object) -> str:
    """How to write the value as one of these types."""
    if "string" in kinds and isinstance(value, bool | int | float):
        return f"write it in quotes: {json.dumps(json.dumps(value))}"
    if "array" in kinds and isinstance(value, str | bool | int | float):
        return f"write a list: [{value if isinstance(value, str) else json.dumps(value)}]"
    if "integer" in kinds and not isinstance(value, dict | list):
        return "write a whole number without quotes and without a unit, such as 128"
    if "boolean" in kinds:
        return "write true or false, without quotes"
    return "write fields below it" if "object" in kinds and not isinstance(value, list) else ""


def of_values(supported: Sequence[object], value: object) -> str:
    """The supported value that is meant, if one is near."""
    options = {str(one).casefold(): str(one) for one in supported}
    near = get_close_matches(str(value).casefold(), options, n=1) if isinstance(value, str) else []
    if not near:
        return "use one of the supported values"
    meant = options[near[0]]
    return f"write {meant}" if near[0] == str(value).casefold() else f"did you mean {meant}?"

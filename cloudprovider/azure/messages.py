"""Condition messages from the messages of ARM, in at most 256 bytes.

The code comes first, then the text, then the whole remedy. Sentences with links are dropped; GUIDs, resource paths and
credentials are masked. The wait time (see `Retry-After`) and the time of day are removed, so that the same error has
the same message each time. Pure and total.

Source: docs/references/rules.md#accurate-status, docs/references/rules.md#no-secrets-in-output,
docs/references/agent-pools.md#quota-and-capacity-errors.
"""

import re

from provisioner.api.conditions import MESSAGE_BYTES, truncate
from provisioner.runtime.redaction import redact

SUMMARY_CHARACTERS = 400
CODE_BYTES = 80
MIN_TEXT_BYTES = 24

_LINK = re.compile(r"(?i)(https?://|aka\.ms/|www\.)\S*")
_GUID = re.compile(r"(?i)[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
_PATH = re.compile(r"/subscriptions/[^\s'\",;?]+", re.IGNORECASE)
_QUERY = re.compile(r"\?[^\s'\"]*")
_SENTENCE = re.compile(r"(?<=[.;!])\s+")
_WAIT = re.compile(
    r"(?i),?\s*(?:please,?\s+)?(?:re)?try(?:\s+again)?\s+(?:in|after)\s+'?\d+(?:\.\d+)?'?\s*s(?:ec(?:ond)?s?)?\b"
    r"(?:\s+after additional tokens are available)?"
)
_TIME = re.compile(r"(?:,?\s*\bat\s+)?\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?")
_ELSEWHERE = re.compile(r"not available in (?:this )?location(?: '[^']{1,40}')?(?: zones '[^']{1,20}')?", re.IGNORECASE)
_ACTION = re.compile(r"perform action '([\w./*-]{1,120})'", re.IGNORECASE)

_FAMILY = re.compile(r"approved (.{1,80}?) quota|for family (\S{1,60})", re.IGNORECASE)
_LOCATION = re.compile(r"(?:location:?|region:?)\s+'?([a-z][a-z0-9]{2,30})\b", re.IGNORECASE)
_NUMBERS = {
    "limit": re.compile(r"Current Limit: (\d{1,9})", re.IGNORECASE),
    "used": re.compile(r"Current Usage: (\d{1,9})", re.IGNORECASE),
    "more": re.compile(r"Additional Required: (\d{1,9})|quota,? requested (\d{1,9})", re.IGNORECASE),
    "left": re.compile(r"remaining (\d{1,9})", re.IGNORECASE),
}
_NOT_LOCATIONS = frozenset({"for", "and", "the", "does", "has", "please", "is", "was", "with", "not"})


def format_message(code: str, text: str, remedy: str, *, limit: int = MESSAGE_BYTES) -> str:
    """`code: text. remedy` in at most `limit` bytes; the text is truncated."""
    head = f"{truncate(_plain(code), CODE_BYTES)}: " if code else ""
    tail = f" {remedy}" if remedy else ""
    room = limit - len(head.encode()) - len(tail.encode()) - len(".")
    body = truncate(text.rstrip(". "), max(room, MIN_TEXT_BYTES))
    stop = "." if tail and not body.endswith("...") else ""
    return truncate(head + body + stop + tail, limit)


def summarize(message: str) -> str:
    """The sentences without links, masked; all sentences if each one has a link."""
    text = " ".join(redact(message[:4096]).split())
    sentences = [_TIME.sub("", _WAIT.sub("", sentence)) for sentence in _SENTENCE.split(text)]
    non_empty = [sentence for sentence in sentences if any(map(str.isalnum, sentence))]
    kept = [sentence for sentence in non_empty if _LINK.search(sentence) is None]
    return _plain(" ".join(kept or non_empty))[:SUMMARY_CHARACTERS].strip()


def denied_action(message: str) -> str:
    """The end of the denied action, as `missing permission …`; "" if the message names none."""
    action = _ACTION.search(message)
    return f"missing permission {'/'.join(action[1].split('/')[-2:])}" if action is not None else ""


def parse_shortage(message: str) -> str:
    """Where Compute does not offer a size, without the texts of the deployments around it; "" if it does not say."""
    match = _ELSEWHERE.search(message)
    return f"the size is {_plain(match[0])}" if match is not None else ""


def _plain(text: str) -> str:
    text = _PATH.sub(_last_segment, _QUERY.sub("", _LINK.sub("", text)))
    text = _GUID.sub("…", text)
    return " ".join("".join(c for c in text if c.isprintable()).split())


def _last_segment(path: re.Match[str]) -> str:
    return path[0].rstrip("./").rpartition("/")[2]


def parse_quota(message: str) -> str:
    """The numbers of a quota error of Compute or AKS, summarized; "" if the message does not state them."""
    named = _FAMILY.search(message)
    if named is None:
        return ""
    found = {key: _number(pattern, message) for key, pattern in _NUMBERS.items()}
    numbers = (("limit", "limit"), ("used", "used"), ("left", "left"), ("more", "needed"))
    parts = [f"{label} {found[key]}" for key, label in numbers if found[key] is not None]
    where = parse_location(message)
    text = f"{_plain(named[1] or named[2]).removesuffix(' Cores').removesuffix('Cores')} cores quota" + (
        f" in {where}" if where else ""
    )
    return f"{text}: {', '.join(parts)}" if parts else f"{text} is exhausted"


def _number(pattern: re.Pattern[str], message: str) -> int | None:
    match = pattern.search(message)
    return int(next(group for group in match.groups() if group is not None)) if match else None


def parse_location(message: str) -> str:
    """The Azure region in a message; "" if there is none."""
    names = (match[1].lower() for match in _LOCATION.finditer(message))
    return next((name for name in names if name not in _NOT_LOCATIONS), "")

"""ARM's prose in a condition's 256 bytes.

Code first, then words, the remedy last and whole; sentences with links are dropped, GUIDs, resource paths and
whatever looks like a credential are masked. How long to wait (Retry-After says it to us) and the time of day are left
out: the same refusal has the same words a moment later. Pure and total.

Source: docs/references/rules.md#accurate-status, docs/references/rules.md#no-secrets-in-output,
docs/references/agent-pools.md#quota-and-capacity-errors.
"""

import re

import msgspec

from provisioner.api.conditions import MESSAGE_BYTES, truncate
from provisioner.runtime.redaction import redact

WORDS_CHARACTERS = 400
CODE_BYTES = 80
LEAST_WORDS_BYTES = 24

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
_ACTION = re.compile(r"perform action '([\w./*-]{1,120})'", re.IGNORECASE)

_FAMILY = re.compile(r"approved (.{1,80}?) quota|for family (\S{1,60})", re.IGNORECASE)
_LOCATION = re.compile(r"(?:location:?|region:?)\s+'?([a-z][a-z0-9]{2,30})\b", re.IGNORECASE)
_NUMBERS = {
    "limit": re.compile(r"Current Limit: (\d{1,9})", re.IGNORECASE),
    "used": re.compile(r"Current Usage: (\d{1,9})", re.IGNORECASE),
    "more": re.compile(r"Additional Required: (\d{1,9})|quota,? requested (\d{1,9})", re.IGNORECASE),
    "left": re.compile(r"remaining (\d{1,9})", re.IGNORECASE),
}
_TOLD_LIMIT = re.compile(r"quota\b[^.]*: limit (\d{1,9})\b")
_NO_LOCATIONS = frozenset({"for", "and", "the", "does", "has", "please", "is", "was", "with", "not"})


class Quota(msgspec.Struct, frozen=True):
    """What a quota error says in numbers; "" and None if it does not."""

    words: str = ""
    limit: int | None = None


def compose(code: str, text: str, remedy: str, *, limit: int = MESSAGE_BYTES) -> str:
    """`code: text. remedy` in that many bytes; the text is what gives way."""
    head = f"{truncate(_plain(code), CODE_BYTES)}: " if code else ""
    tail = f" {remedy}" if remedy else ""
    room = limit - len(head.encode()) - len(tail.encode()) - len(".")
    body = truncate(text.rstrip(". "), max(room, LEAST_WORDS_BYTES))
    stop = "." if tail and not body.endswith("...") else ""
    return truncate(head + body + stop + tail, limit)


def words(message: str) -> str:
    """The message's sentences that hold no link, in plain text."""
    text = " ".join(redact(message[:4096]).split())
    sentences = [_TIME.sub("", _WAIT.sub("", sentence)) for sentence in _SENTENCE.split(text)]
    telling = [sentence for sentence in sentences if any(map(str.isalnum, sentence))]
    kept = [sentence for sentence in telling if _LINK.search(sentence) is None]
    return _plain(" ".join(kept or telling))[:WORDS_CHARACTERS].strip()


def denied(message: str) -> str:
    """What ARM says that we may not do, by the end of its name; "" if it does not name it."""
    action = _ACTION.search(message)
    return f"we may not {'/'.join(action[1].split('/')[-2:])}" if action is not None else ""


def _plain(text: str) -> str:
    text = _PATH.sub(_last_segment, _QUERY.sub("", _LINK.sub("", text)))
    text = _GUID.sub("…", text)
    return " ".join("".join(c for c in text if c.isprintable()).split())


def _last_segment(path: re.Match[str]) -> str:
    return path[0].rstrip("./").rpartition("/")[2]


def quota(message: str) -> Quota:
    """The numbers of Compute's or AKS's quota error."""
    named = _FAMILY.search(message)
    if named is None:
        return Quota()
    found = {key: _number(pattern, message) for key, pattern in _NUMBERS.items()}
    numbers = (("limit", "limit"), ("used", "used"), ("left", "left"), ("more", "needed"))
    parts = [f"{label} {found[key]}" for key, label in numbers if found[key] is not None]
    where = location(message)
    text = f"{_plain(named[1] or named[2]).removesuffix(' Cores').removesuffix('Cores')} cores quota" + (
        f" in {where}" if where else ""
    )
    return Quota(f"{text}: {', '.join(parts)}" if parts else f"{text} is used up", found["limit"])


def told_limit(text: str) -> int | None:
    """The limit that words of `quota` name, None if they name none."""
    match = _TOLD_LIMIT.search(text)
    return int(match[1]) if match else None


def _number(pattern: re.Pattern[str], message: str) -> int | None:
    match = pattern.search(message)
    return int(next(group for group in match.groups() if group is not None)) if match else None


def location(message: str) -> str:
    """The Azure region a message names, "" if none."""
    names = (match[1].lower() for match in _LOCATION.finditer(message))
    return next((name for name in names if name not in _NO_LOCATIONS), "")

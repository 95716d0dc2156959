"""Text of others (names, labels, annotations, tags, responses) in messages, logs and tables.

A control character can move the cursor of a terminal, and a direction character can hide a part of a line: each is
written as its escape sequence.
"""

QUOTED_CHARACTERS = 64


def printable(text: str, *, keep: str = "") -> str:
    r"""The text with each character that is not printable as an escape such as `\x1b`, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def quoted(text: str, limit: int = QUOTED_CHARACTERS) -> str:
    """The text in quotation marks, printable, cut after `limit` characters."""
    return f'"{printable(text[:limit])}{"..." if len(text) > limit else ""}"'


def _escape(character: str) -> str:
    """Beyond ASCII as in JSON, where a character that is not escaped can only be in a string."""
    if character.isascii():
        return character.encode("unicode_escape").decode()
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

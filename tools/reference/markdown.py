"""Markdown for generated pages: tables, code and the line that names the source.

Cells are escaped, so that a `|` in a text cannot break a table; every page is ended by one newline.
"""

from collections.abc import Iterable, Sequence


def page(title: str, source: str, *parts: str) -> str:
    """A whole page; `source` is where its facts are changed, as a path from the repository's root."""
    head = f"<!-- Written by `make generate` from {source}; change it there. -->\n\n# {title}"
    return "\n\n".join([head, *(part.strip("\n") for part in parts)]) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; raises ValueError if a row is not as long as its head."""
    lines = [_line(heads), _line(["---"] * len(heads))]
    for row in rows:
        if len(row) != len(heads):
            raise ValueError(f"a row of {len(row)} cells under {len(heads)} heads: {row}")
        lines.append(_line(row))
    return "\n".join(lines)


def code(text: str) -> str:
    """Inline code, or nothing for an empty text."""
    if not text:
        return ""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def block(text: str, language: str = "text") -> str:
    """A fenced block."""
    return f"```{language}\n{text.rstrip()}\n```"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

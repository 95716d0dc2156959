"""Markdown of generated pages: tables with escaped cells, code, and the comment that names the source."""

from collections.abc import Iterable, Sequence


def page(title: str, source: str, *parts: str) -> str:
    """A page; `source` is the path of the file to edit, relative to the repository's root."""
    head = f"<!-- Written by `make generate` from {source}; change it there. -->\n\n# {title}"
    return "\n\n".join([head, *(part.strip("\n") for part in parts)]) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Raises ValueError if a row has not as many cells as the head."""
    lines = [_line(heads), _line(["---"] * len(heads))]
    for row in rows:
        if len(row) != len(heads):
            raise ValueError(f"a row of {len(row)} cells under {len(heads)} heads: {row}")
        lines.append(_line(row))
    return "\n".join(lines)


def code(text: str) -> str:
    """Inline code; "" for an empty text."""
    if not text:
        return ""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def block(text: str, language: str = "text") -> str:
    """A fenced block."""
    return f"```{language}\n{text.rstrip()}\n```"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

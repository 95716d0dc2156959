"""Rewords every message of conditions and Events: into words that no rule can know, other ones in each process.

Stories, and what stands for KAITO, still read the original words. A controller reads what it or its predecessor wrote,
so that a rule which depends on words decides wrongly, or writes without end.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from provisioner.api import conditions
from provisioner.api.meta import Condition
from provisioner.runtime import events

from . import kaito_predicates, messages
from .harness import Sim
from .process import PROCESS

Json = dict[str, Any]
TOKEN = re.compile(r"<[0-9a-f]{16} of [\w']+>")


class Words:
    """The original of each message, by the one that replaced it."""

    def __init__(self) -> None:
        self._originals: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._originals)

    def replaced(self, text: str) -> str:
        """What this process writes instead. A message that stays as it was read has been replaced already."""
        process = PROCESS.get()
        if process is None or not text or TOKEN.fullmatch(text):
            return text
        token = f"<{hashlib.sha256(text.encode()).hexdigest()[:16]} of {process.name}>"
        self._originals[token] = text
        return token

    def original(self, value: Any) -> Any:
        """The text, or all texts of the object, in the original words."""
        match value:
            case str():
                return TOKEN.sub(lambda found: self.original(self._originals.get(found[0], "")), value)
            case dict():
                return {key: self.original(one) for key, one in value.items()}
            case list() | tuple():
                return type(value)(self.original(one) for one in value)
            case _:
                return value


class Read:
    """The store as users read it."""

    def __init__(self, store: Any, words: Words) -> None:
        self._store, self._words = store, words

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, *where: Any, **chosen: Any) -> Json | None:
        return self._words.original(self._store.get(*where, **chosen))

    def list(self, *where: Any, **chosen: Any) -> list[Json]:
        return self._words.original(self._store.list(*where, **chosen))

    def each(self, *where: Any, **chosen: Any) -> Iterator[Json]:
        return map(self._words.original, self._store.each(*where, **chosen))


def reword(monkeypatch: pytest.MonkeyPatch) -> Words:
    """Reword the messages of all simulations of a test."""
    words = Words()
    after_write, of_event = conditions.after_write, events._message
    begin, condition = Sim.__init__, kaito_predicates.condition
    explained, explained_event = messages.explained, messages.explained_event

    def with_reader(sim: Sim, *given: Any) -> None:
        begin(sim, *given)
        sim.store = Read(sim.world.store, words)  # type: ignore[assignment]

    def reworded_condition(*given: Any, message: str, **more: Any) -> Condition:
        return after_write(*given, message=words.replaced(conditions.truncate(message)), **more)

    monkeypatch.setattr(Sim, "__init__", with_reader)
    monkeypatch.setattr(conditions, "after_write", reworded_condition)
    monkeypatch.setattr(events, "_message", lambda text: words.replaced(of_event(text)))
    monkeypatch.setattr(kaito_predicates, "condition", lambda *given: words.original(condition(*given)))
    monkeypatch.setattr(messages, "explained", lambda *given: explained(*words.original(given)))
    monkeypatch.setattr(messages, "explained_event", lambda *given: explained_event(*words.original(given)))
    return words

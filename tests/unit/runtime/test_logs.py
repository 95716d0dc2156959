"""Log lines: Karpenter's keys, no credentials, no forged lines."""

import io
import json
import logging
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from provisioner.runtime import logs
from provisioner.runtime.redaction import redact

ROOT = Path(__file__).parents[3]
AT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


class Noon:
    def now(self) -> datetime:
        return AT


@pytest.fixture
def out():
    """The log output; global configuration is restored afterwards."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in logs.QUIET_LIBRARIES}
    stream = io.StringIO()
    logs.configure(Noon(), stream=stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)
    for name, value in levels.items():
        logging.getLogger(name).setLevel(value)
    structlog.reset_defaults()


def lines(out: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_has_karpenters_keys_in_order(out) -> None:
    """Level, time, logger and message first, then the context; the time comes from the clock."""
    with structlog.contextvars.bound_contextvars(controller="machine", key="ws1"):
        logs.get_logger("controllers.nodeclaim.lifecycle.launch").info("created", pool="ws1", seconds=1.5)
    (line,) = lines(out)
    assert list(line)[:4] == ["level", "time", "logger", "message"]
    assert line == {
        "level": "INFO",
        "time": "2026-03-01T12:00:00.123Z",
        "logger": "controllers.nodeclaim.lifecycle.launch",
        "message": "created",
        "controller": "machine",
        "key": "ws1",
        "pool": "ws1",
        "seconds": 1.5,
    }


def test_the_commit_is_in_every_line_if_it_is_known(out) -> None:
    """In our lines and those of libraries, before the context."""
    logs.configure(Noon(), stream=out, commit="0123456")
    logs.get_logger("x").info("ours", pool="ws1")
    logging.getLogger("aiohttp.client").warning("theirs")
    for line in lines(out):
        assert list(line)[:5] == ["level", "time", "logger", "message", "commit"]
        assert line["commit"] == "0123456"


def test_debug_says_where(out) -> None:
    """File and line of the call, at debug level only."""
    logs.get_logger("x").info("no")
    logs.configure(Noon(), stream=out, level="debug")
    logs.get_logger("x").info("yes")
    plain, placed = lines(out)
    assert "caller" not in plain
    file, _, line = placed["caller"].partition(":")
    assert (file, line.isdigit()) == ("test_logs.py", True)


class Ticking:
    """A clock whose time is set by the test."""

    second = 0

    def now(self) -> datetime:
        return AT + timedelta(seconds=self.second)


def test_a_hot_loop_is_sampled(out) -> None:
    """A hundred of one message in a second, then every hundredth; other messages and seconds count separately."""
    clock = Ticking()
    logs.configure(clock, stream=out)
    log = logs.get_logger("x")

    def stated(message: str, times: int) -> int:
        before = len(lines(out))
        for number in range(times):
            log.warning(message, number=number)
        return len(lines(out)) - before

    assert stated("again", 350) == 100 + 2
    assert stated("something else", 100) == 100
    assert stated("again", 50) == 1
    clock.second = 1
    assert stated("again", 50) == 50


def test_the_audit_is_never_sampled(out) -> None:
    """Three hundred writes in a second are three hundred lines."""
    for number in range(300):
        logs.get_logger("cloudprovider").info("created agent pool", pool=str(number))
    assert [line["pool"] for line in lines(out)] == [str(number) for number in range(300)]


@pytest.mark.parametrize(("value", "coloured"), [("", True), ("1", False)])
def test_no_color_is_honoured(out, monkeypatch, value, coloured) -> None:
    """no-color.org: present and not empty."""
    monkeypatch.setenv("NO_COLOR", value)
    logs.configure(Noon(), stream=out, console=True)
    logs.get_logger("x").info("claim")
    assert ("\x1b[" in out.getvalue()) is coloured


def test_the_level_is_a_threshold(out) -> None:
    """Debug lines are dropped at info and shown at debug."""
    logs.get_logger("x").debug("no")
    assert lines(out) == []
    logs.configure(Noon(), stream=out, level="debug")
    logs.get_logger("x").debug("yes")
    assert [line["level"] for line in lines(out)] == ["DEBUG"]


def test_libraries_speak_from_warning_on_and_in_the_same_form(out) -> None:
    """The SDKs log headers at info: never shown, even at debug."""
    logs.configure(Noon(), stream=out, level="debug")
    logging.getLogger("azure.core.pipeline.policies.http_logging_policy").info("Request headers: …")
    logging.getLogger("kubernetes_asyncio.client.rest").debug("response body: …")
    logging.getLogger("aiohttp.client").warning("retrying %s", "x")
    (line,) = lines(out)
    assert (line["level"], line["logger"], line["message"]) == ("WARNING", "aiohttp.client", "retrying x")


def test_no_logger_of_the_program_is_muted_with_a_library() -> None:
    """A logger named as a library, or below one, would log from WARNING on only."""
    names = {
        name
        for package in ("provisioner", "controllers", "cloudprovider")
        for file in (ROOT / package).rglob("*.py")
        for name in re.findall(r'get_logger\("([^"]+)"\)', file.read_text(encoding="utf-8"))
    }
    assert {"cloudprovider", "lifecycle", "actuator"} <= names
    assert not [name for name in names if name.partition(".")[0] in logs.QUIET_LIBRARIES]


SECRETS = [
    "Bearer c4nary.c4nary",
    "bearer c4nary-c4nary",
    "Authorization: Bearer c4nary.c4nary",
    "{'Authorization': 'Bearer c4nary.c4nary'}",
    '"authorization":"Basic c4narYc4nary=="',
    "eyJhbGciOiJSUzI1NiJ9.c4nary.c4nary",
    "https://management.azure.com/x/operations/1?api-version=2&t=1&c=c4nary&s=c4nary-_%2B&h=c4nary&x=1",
    "https://acc.blob.core.windows.net/a?sv=2&sig=c4nary%3D",
    "POST grant_type=x&client_secret=c4nary&client_assertion=c4nary",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("console", [False, True])
def test_no_secret_reaches_the_log(out, secret, console) -> None:
    """In the message, in a value, in a nested value, in an exception and in its chain."""
    logs.configure(Noon(), stream=out, console=console)
    log = logs.get_logger("x")
    log.info(f"sent {secret}")
    log.info("sent", value=secret, nested={"a": [("b", {"c": secret})]}, thing=ValueError(secret))
    log.info("sent", token="c4nary", headers={"Authorization": "c4nary", "client-secret": "c4nary"})
    try:
        try:
            raise ValueError(secret)  # noqa: TRY301 - the chain is what is tested
        except ValueError as inner:
            raise RuntimeError(f"while at {secret}") from inner
    except RuntimeError:
        log.exception("failed")
        logging.getLogger("azure.identity").exception("failed with %s", secret)
    text = out.getvalue()
    assert "failed" in text
    assert "c4nary" not in text.lower()


def test_redaction_leaves_ordinary_text_alone() -> None:
    """Names, quantities and URLs without a signature stay readable."""
    for text in (
        "pods=3 nodes=4",
        "https://aka.ms/quota?region=westeurope&sku=x",
        "s=1, h=2",
        "token expired",
        "ws1.abc",
    ):
        assert redact(text) == text
    assert redact("x?api-version=1&s=abc&y=2") == "x?api-version=1&s=***&y=2"


@given(st.text(alphabet=st.characters(), max_size=80))
def test_no_value_can_forge_a_line(text) -> None:
    """Control characters, line ends and text direction marks stay inside their JSON string."""
    stream = io.StringIO()
    line = logs._one_line({"message": text})
    stream.write(line)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(stream.getvalue()) == {"message": text}


def test_the_console_shows_no_foreign_escapes(out) -> None:
    """A claim's name can neither colour the terminal nor change the text direction."""
    logs.configure(Noon(), stream=out, console=True)
    logs.get_logger("x").info("claim", name="\x1b[31mred\u202e")
    assert "\x1b[31mred" not in out.getvalue()
    assert "\u202e" not in out.getvalue()

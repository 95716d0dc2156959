"""Each code of the error table, in each shape in which ARM and AKS return it, and arbitrary responses."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from hypothesis import given
from hypothesis import strategies as st

from cloudprovider.azure.arm_errors import read_body, read_error
from cloudprovider.azure.error_table import TABLE, UNKNOWN, Row
from cloudprovider.azure.errors import classify, classify_failure, classify_operation, match_row
from cloudprovider.errors import CloudError, NoCapacity, NotFound, Retryable
from cloudprovider.interface import Failure
from provisioner.simulator.azure import faults

from .error_bodies import BODIES, CODES, PHRASES, VERBS, Answer, flat, wrapped
from .error_rows import ABSENT, BOOT, CASES, NAMED, POOL, SHORTAGE, WRAPPERS, Case

PAGE = Path(__file__).parents[4] / "docs" / "references" / "agent-pools.md"
OPERATION = 200
MOST_BYTES = 256


def shapes(case: Case) -> Iterator[tuple[str, Any]]:
    """The error as a response body: of AKS, of ARM, in wrappers of AKS; where possible, quoted in text."""
    if not case.code:
        yield from {"HTML": "<html><h1>Bad day</h1></html>", "nothing": "", "half": '{"error": {"co'}.items()
        return
    yield "flat", flat(case.code, case.says)
    if case.section == ABSENT:
        if case.code != "NotFound":
            yield "wrapped", wrapped(case.code, case.says)
        return
    yield "wrapped", wrapped(case.code, case.says)
    if match_row(case.statuses[0], read_error({"code": case.code, "message": case.says}), case.verb)[0].codes:
        yield "subcode", flat("Outer", case.says, subcode=case.code)
    if case.section in (SHORTAGE, BOOT):
        for wrapper in WRAPPERS:
            inner = faults.error(case.code, case.says)
            yield f"in {wrapper}", {"error": faults.error(wrapper, "See details.", [inner])}
            twice = faults.error(wrapper, "See details.", [faults.error("Outer", "See details.", [inner])])
            yield f"deep in {wrapper}", {"error": twice}
            yield f"quoted by {wrapper}", flat(wrapper, f'failed: Code="{case.code}" Message="{case.says}"')
            for written in (json.dumps(inner, indent=2), json.dumps({"error": inner}), json.dumps(inner)[:-1]):
                yield f"quoted by {wrapper}", flat(wrapper, f"failed. Error: {written}")
            twice = faults.error("Outer", f"failed: {json.dumps(inner)}")
            yield f"quoted by {wrapper}", flat(wrapper, f"failed. Error: {json.dumps(twice)}")


def answered(case: Case, status: int, body: Any) -> CloudError:
    """The CloudError of a response, through the exception of the SDK."""
    response: Any = Answer(status, body if isinstance(body, str) else json.dumps(body))
    return classify(HttpResponseError(response=response), pool=POOL, verb=case.verb)


def error_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = body.get("error", body)
    assert isinstance(inner, Mapping)
    return inner


def ended(body: Mapping[str, Any]) -> tuple[Failure, ...]:
    """The same error from a failed pool, and from a failed operation (HTTP 200)."""
    error = error_of(body)
    pool = classify_failure(error["code"], error["message"], error.get("details"))
    operation = classify_operation({"name": "1", "status": "Failed", "error": error})
    assert operation is not None
    return pool, operation


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_code_means_the_same_in_every_shape(case: Case) -> None:
    """Kind, reason, scope and delay; the message begins with the code and ends with the remedy."""
    for shape, body in shapes(case):
        for status in case.statuses:
            errors: tuple[CloudError | Failure, ...] = (answered(case, status, body),)
            if status == OPERATION and case.code and shape != "subcode":
                errors += ended(body)
            for error in errors:
                updates(case, shape, error)


def updates(case: Case, shape: str, error: CloudError | Failure) -> None:
    reported = (error.kind, error.reason, error.after)
    # A machine may have been created for a pool that failed: unless capacity was missing, it counts as a rejection.
    cost = isinstance(error, Failure) and case.kind != "no_capacity"
    kind, after = ("rejected", None) if cost else (case.kind, case.after)
    assert reported == (kind, case.reason, after), (shape, error)
    assert len(error.message.encode()) <= MOST_BYTES
    assert error.message.rstrip(".").endswith(case.ends), shape
    assert case.holds in error.message
    assert "http" not in error.message.replace("HTTP", "")
    assert "secret" not in error.message
    if case.code and case.kind != "not_found":
        assert error.message.startswith(f"{error.code}: "), (shape, error.message)
        # Without a code in the row, the code is the outermost one.
        speaker = {"quoted": shape.rpartition(" ")[2], "subcode": "Outer"}.get(shape.partition(" ")[0], case.code)
        assert error.code in (case.code, speaker), shape
    if case.scope is not None:
        assert isinstance(error, NoCapacity | Failure)
        assert error.scope == case.scope, shape
    if isinstance(error, Retryable):
        assert error.conflict == case.conflict, shape


def test_every_code_of_the_reference_has_a_case() -> None:
    """The codes of `NAMED` are those of the cases."""
    for section, codes in NAMED.items():
        covered = {case.code for case in CASES if case.section == section}
        assert not set(codes.split()) - covered, section


def test_every_code_is_on_the_page_of_facts() -> None:
    """Each section is a heading of docs/references/agent-pools.md, and the text below it names the section's codes."""
    headings = PAGE.read_text(encoding="utf-8").split("\n## ")
    texts = {text.partition("\n")[0].lower().replace(" ", "-"): text for text in headings}
    assert {case.section for case in CASES} <= set(texts)
    for section, codes in NAMED.items():
        assert [code for code in codes.split() if code not in texts[section]] == [], section


def test_every_row_of_the_table_is_hit_by_a_case() -> None:
    """Each row is the match of a case; otherwise it is unreachable."""
    hit: list[Row] = []
    for case in CASES:
        for _, body in shapes(case):
            error = read_body(body if isinstance(body, str) else json.dumps(body))
            hit += [match_row(status, error, case.verb)[0] for status in case.statuses]
    assert [row for row in TABLE if row not in hit] == []


def test_every_code_of_the_table_is_in_a_case() -> None:
    """Each code of each row has a case."""
    spoken = {case.code.casefold() for case in CASES}
    named = {code.casefold() for row in TABLE for code in row.codes}
    untried = {code for code in named if "*" not in code and code not in spoken}
    assert untried <= {"insufficientvcpuquota", "invalidtemplatedeployment", "notavailableforsubscription"}


# Operations


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"status": "Failed", "error": faults.error("NodesNotReady", "Expected: 1")}, "NodesNotReady"),
        ({"status": "Canceled", "error": faults.error("AKSOperationPreempted", "x")}, "AKSOperationPreempted"),
        ({"status": "Canceled"}, "OperationCanceled"),
        ({"status": "canceled", "error": None}, "OperationCanceled"),
        ({"status": "Failed", "error": wrapped("AllocationFailed", "x")["error"]}, "AllocationFailed"),
    ],
)
def test_a_failed_operation_has_a_failure(body: dict[str, Any], reason: str) -> None:
    """Its error is classified like any other; without an error, a canceled operation has a failure too."""
    reported = classify_operation(body)
    assert reported is not None
    assert reported.reason == reason


@pytest.mark.parametrize(
    "body",
    [{}, {"status": "Failed"}, {"status": "Failed", "error": "x"}, {"status": "InProgress"}, {"status": "Succeeded"}],
)
def test_an_operation_without_a_failure(body: dict[str, Any]) -> None:
    """Running and successful operations, and those without an error, have no failure."""
    assert classify_operation(body) is None


# Arbitrary input

STATUS = st.integers(100, 599)
HEADERS = st.dictionaries(
    st.sampled_from(["Retry-After", "retry-after-ms", "x-ms-failure-cause", "WWW-Authenticate"]),
    st.text(max_size=20) | st.integers().map(str),
    max_size=3,
)
NOISE = st.binary(max_size=120).map(lambda noise: noise.decode("latin-1")) | st.text(max_size=120)
SECRETS = (
    "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzZWNyZXQifQ.c2VjcmV0 at ?sv=1&sig=c2VjcmV0 https://x.example/?s=c2VjcmV0"
)


@given(status=STATUS, headers=HEADERS, body=BODIES | NOISE, verb=st.sampled_from(VERBS))
def test_any_response_is_classified(status: int, headers: dict[str, str], body: Any, verb: Any) -> None:
    """Any status, headers and body; only a 404 of a GET or DELETE that names this pool is NotFound."""
    text = body if isinstance(body, str) else json.dumps(body)
    response: Any = Answer(status, text, headers)
    error = classify(HttpResponseError(response=response), pool=POOL, verb=verb)
    assert error.kind in ("not_found", "retryable", "no_capacity", "rejected")
    assert len(error.message.encode()) <= MOST_BYTES
    assert error.reason.isalnum()
    assert error.reason[:1].isupper()
    assert error.after is None or 0 < error.after <= 3600
    assert "https://" not in error.message
    if isinstance(error, NotFound):
        assert status == 404
        assert verb in ("get", "delete")
        assert "agent pool not found" in text.lower() or f"/agentpools/{POOL}" in text.lower()


@given(code=st.sampled_from(CODES), says=st.lists(st.sampled_from([*PHRASES, SECRETS]), max_size=4).map(" ".join))
def test_messages_have_no_secrets_or_addresses(code: str, says: str) -> None:
    """Tokens, signatures and addresses in messages of ARM are in neither message nor repr."""
    failure = classify_failure(code, f"{says} {SECRETS}", None)
    for secret in ("c2VjcmV0", "eyJ", "https://", "x.example"):
        assert secret not in failure.message
        assert secret not in repr(failure)


@given(body=BODIES)
def test_any_operation_body_is_classified(body: Any) -> None:
    """Any body of an operation is a failure of a known kind, or None."""
    reported = classify_operation(body if isinstance(body, dict) else {"status": "Failed", "error": body})
    assert reported is None or reported.kind in ("no_capacity", "rejected")


def test_an_unknown_error_is_retryable() -> None:
    """The fallback row is retryable."""
    row, _ = match_row(418, read_error({"code": "Teapot", "message": "short and stout"}), "get")
    assert row is UNKNOWN

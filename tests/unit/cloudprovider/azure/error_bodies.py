"""Bodies of errors in every form in which Azure and its SDK give them."""

from typing import Any

from hypothesis import strategies as st

from cloudprovider.azure.error_table import TABLE, Verb

POOL = "gpu1"
VERBS: tuple[Verb, ...] = ("create", "get", "list", "delete", "cluster")
TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
CODES = sorted({code.replace("*", "") for row in TABLE for code in row.codes} | {"NotFound", "notfound", ""})
PHRASES = [
    *sorted({stated for row in TABLE for stated in row.phrases}),
    "Agent Pool not found",
    "agent pool 'gpu2' does not exist",
    f"'/managedClusters/aks/agentPools/{POOL}' was not found",
    f"/agentPools/{POOL}2",
    f"/AGENTPOOLS/{POOL.upper()}",
    'Code="NotFound" Message="Agent Pool not found"',
    "https://example.org/?s=secret",
    "Location: westeurope",
]
MESSAGES = st.lists(st.sampled_from(PHRASES) | TEXT, max_size=4).map(" ".join)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))
ERRORS = st.recursive(
    st.fixed_dictionaries({"code": st.sampled_from(CODES) | JSON, "message": MESSAGES | JSON}),
    lambda inner: st.fixed_dictionaries(
        {"code": st.sampled_from(CODES), "message": MESSAGES, "details": st.lists(inner, max_size=3) | JSON},
        optional={"subcode": st.sampled_from(CODES) | JSON},
    ),
    max_leaves=5,
)
BODIES = ERRORS | ERRORS.map(lambda error: {"error": error}) | JSON


class Answer:
    """The parts of an SDK response that HttpResponseError needs."""

    def __init__(self, status: int, body: str, headers: dict[str, str] | None = None) -> None:
        self.status_code, self.reason, self.headers, self._body = status, "because", headers or {}, body

    def text(self) -> str:
        return self._body


def flat(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"code": code, "details": None, "message": message, "subcode": "", **more}


def wrapped(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}

"""GitHub's workflow files without GitHub: read strictly, and searched for what would fail or leak there.

Promise: `problems` names every mistake of the kinds below; a key that is written twice raises, one that GitHub does not
know is named, so that nothing is passed over because it is misspelt.
Left to others: what an action does with its inputs.

Source: docs.github.com, workflow syntax, and its guide on hardening.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
TOP = {"name", "on", "permissions", "concurrency", "defaults", "env", "jobs"}
JOB = {"runs-on", "timeout-minutes", "permissions", "strategy", "steps", "needs", "if", "env", "outputs"}
CALL = {"uses", "with", "needs", "permissions", "if"}
STEP = {"id", "uses", "with", "run", "env", "if", "name"}
SCOPES = {"contents", "packages", "id-token", "attestations"}
# Who may be anybody: what they start must not be able to write.
OPEN = {"pull_request", "push", "schedule"}
PINNED = re.compile(r"uses: (?P<action>[\w./-]+)@(?P<commit>[0-9a-f]{40}) # v\d+\.\d+\.\d+")
EXPRESSION = re.compile(r"\$\{\{ ?(.*?) ?\}\}")
MADE = re.compile(r"\bmake((?: [a-z-]+)+)")
TAGGED = "startsWith(github.ref, 'refs/tags/v')"


class Strict(yaml.SafeLoader):
    """YAML 1.2's idea of `on`, and no key twice."""


def _mapping(loader: Strict, node: yaml.MappingNode) -> Json:
    keys = [key.value for key, _ in node.value]
    if doubled := {key for key in keys if keys.count(key) > 1}:
        raise ValueError(f"written twice: {doubled}")
    return {key.value: loader.construct_object(value, deep=True) for key, value in node.value}


Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def parse(text: str) -> Json:
    """Raises ValueError or YAMLError."""
    read: Json = yaml.load(text, Strict)  # noqa: S506 - a SafeLoader, only stricter
    return read


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.yml").read_text(encoding="utf-8")


def workflow(name: str) -> Json:
    return parse(text_of(name))


def problems(text: str) -> list[str]:
    """What is wrong with a workflow of this text, each with its place."""
    read = parse(text)
    found = [f"key {key} at the top" for key in read.keys() - TOP]
    found += [f"no {key} at the top" for key in TOP - {"env", "defaults"} - read.keys()]
    if read.get("permissions") != {}:
        found.append("permissions at the top: every job has its own")
    found += _unpinned(text)
    for name, job in read.get("jobs", {}).items():
        found += [f"{name}: {problem}" for problem in _of_a_job(job, read)]
    return found


def _unpinned(text: str) -> Iterator[str]:
    commits: dict[str, str] = {}
    for line in (line.strip().removeprefix("- ") for line in text.splitlines() if "uses:" in line):
        if line.startswith("uses: ./"):
            continue
        match = PINNED.fullmatch(line)
        if match is None:
            yield f"not pinned by commit and version: {line}"
        elif commits.setdefault(match["action"], match["commit"]) != match["commit"]:
            yield f"two versions of {match['action']}"


def _of_a_job(job: Json, read: Json) -> Iterator[str]:
    allowed = CALL if "uses" in job else JOB
    yield from (f"key {key}" for key in job.keys() - allowed)
    yield from (f"no {key}" for key in allowed & {"runs-on", "timeout-minutes", "permissions", "steps"} - job.keys())
    needs = job.get("needs", [])
    needed = [needs] if isinstance(needs, str) else needs
    yield from (f"needs {other}, which is no job" for other in needed if other not in read["jobs"])
    yield from _of_permissions(job, read)
    if "uses" in job:
        yield from _of_a_call(job)
    known = {"needs": set(needed), "steps": {step["id"] for step in job.get("steps", ()) if "id" in step}}
    for expression in EXPRESSION.findall(yaml.dump(job)):
        kind, _, rest = expression.partition(".")
        if kind in known and rest.split(".")[0] not in known[kind]:
            yield f"{expression}: there is none of that name"
        if kind == "secrets" and rest != "GITHUB_TOKEN":
            yield f"{expression}: nothing here needs a secret"
    for number, step in enumerate(job.get("steps", ()), 1):
        yield from (f"step {number}: {problem}" for problem in _of_a_step(step))


def _of_permissions(job: Json, read: Json) -> Iterator[str]:
    granted: Mapping[str, str] = job.get("permissions", {})
    yield from (f"permission {scope}" for scope in granted.keys() - SCOPES)
    yield from (f"permission {scope}: {level}" for scope, level in granted.items() if level not in {"read", "write"})
    tags_only = read["on"].get("push", {}) == {"tags": ["v*"]} and set(read["on"]) == {"push"}
    if "write" in granted.values() and OPEN & set(read["on"]) and not tags_only and job.get("if") != TAGGED:
        yield "may write although anybody may start it"


def _of_a_call(job: Json) -> Iterator[str]:
    path = ROOT / job["uses"]
    if not path.is_file():
        yield f"calls {job['uses']}, which is not there"
        return
    called = parse(path.read_text(encoding="utf-8"))
    if "workflow_call" not in called["on"]:
        yield f"calls {job['uses']}, which cannot be called"
        return
    inputs = (called["on"]["workflow_call"] or {}).get("inputs", {})
    yield from (f"input {name} is not known" for name in job.get("with", {}).keys() - inputs.keys())
    yield from (f"input {name} is missing" for name in inputs.keys() - job.get("with", {}).keys())
    for each in called["jobs"].values():
        for scope, level in each["permissions"].items():
            if job["permissions"].get(scope) not in {level, "write"}:
                yield f"{job['uses']} needs {scope}: {level}"


def _of_a_step(step: Json) -> Iterator[str]:
    yield from (f"key {key}" for key in step.keys() - STEP)
    if ("uses" in step) == ("run" in step):
        yield "either uses or run"
    if step.get("uses", "").startswith("actions/checkout@") and step["with"].get("persist-credentials") is not False:
        yield "leaves the token in the checkout"
    if "run" in step:
        yield from _of_a_script(step["run"], step.get("env", {}))


def _of_a_script(script: str, env: Mapping[str, str]) -> Iterator[str]:
    if EXPRESSION.search(script):
        yield "an expression in a script is read as code: hand it over in env"
    if done := subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False).stderr:
        yield done.strip()
    if any("secrets." in value for value in env.values()):
        yield "a secret in a script's environment"
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    made = {word for words in MADE.findall(script) for word in words.split()}
    yield from (f"make {target}: there is no such target" for target in made - targets)
    for module in re.findall(r"python3? -m (tools\.[a-z_.]+)", script):
        if not (ROOT / (module.replace(".", "/") + ".py")).is_file():
            yield f"{module}: there is no such module"
    for path in re.findall(r"(?<![\w/])(?:charts/[\w./-]+|[\w-]+\.lock|\.ci/\w+)", script):
        if not (ROOT / path).exists():
            yield f"{path}: there is no such file"

"""The commands of the documentation use existing commands, flags, make targets, keys and files.

The program's parsers, kubectl and Helm check their own commands. The Azure CLI is not installed: its commands are
compared with `AZ`, a copy of its reference, so a flag that Azure renames is not detected.
"""

import contextlib
import copy
import io
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import helm_python
import jsonschema_rs
import msgspec
import pytest
import yaml

from provisioner.api.crd import nodeclaim_crd, nodeoverlay_crd, nodepool_crd
from provisioner.api.crd_nodeclass import agentpoolnodeclass_crd
from provisioner.api.deviceclaim import ResourceClaimTemplate
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.nodepool import NodePool
from provisioner.api.pod import Pod
from provisioner.cli.definitions import COMMANDS
from provisioner.cli.main import run_command
from provisioner.cli.parser import parse
from provisioner.settings import IGNORED, OPTIONS
from tests.unit.charts.chart_values import NEEDED, defaults, render
from tests.world.kaito_nodepools import node_classes

from .documented import DOCUMENTS, ROOT, Shown, commands, lines, shown

ALL = shown()
SNIPPETS = [
    (str(path.relative_to(ROOT)), block)
    for path in DOCUMENTS
    for block in re.findall(r"^```yaml\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
]
KUBECTL = Path(sys.executable).parent / "kubectl"
VARIABLES = {name for option in (*OPTIONS, *IGNORED) for name in option.env}

# The flags of each command (https://learn.microsoft.com/cli/azure/reference-index); AZ_ALWAYS: flags of all commands.
AZ_ALWAYS = {"--query", "--output", "-o", "--subscription"}
AZ = {
    "account show": set(),
    "acr build": {"--registry", "--image"},
    "acr create": {"--resource-group", "--name", "--sku"},
    "aks create": {
        "--resource-group", "--name", "--node-count", "--enable-oidc-issuer", "--enable-workload-identity",
        "--attach-acr", "--generate-ssh-keys",
    },
    "aks get-credentials": {"--resource-group", "--name"},
    "aks list": set(),
    "aks nodepool list": {"--resource-group", "--cluster-name"},
    "aks nodepool scale": {"--resource-group", "--cluster-name", "--name", "--node-count"},
    "aks nodepool show": {"--resource-group", "--cluster-name", "--name"},
    "aks show": {"--resource-group", "--name"},
    "aks start": {"--resource-group", "--name"},
    "aks stop": {"--resource-group", "--name"},
    "aks update": {
        "--resource-group", "--name", "--enable-oidc-issuer", "--enable-workload-identity", "--attach-acr",
    },
    "group create": {"--name", "--location"},
    "group delete": {"--name"},
    "identity create": {"--resource-group", "--name"},
    "identity delete": {"--resource-group", "--name"},
    "identity federated-credential create": {
        "--resource-group", "--identity-name", "--name", "--issuer", "--subject", "--audiences",
    },
    "identity show": {"--resource-group", "--name"},
    "login": set(),
    "monitor activity-log list": {"--resource-group", "--offset"},
    "role assignment list": {"--assignee", "--all"},
    "role assignment create": {"--assignee-object-id", "--assignee-principal-type", "--role", "--scope"},
    "role definition create": {"--role-definition"},
    "role definition delete": {"--name"},
    "vm list-skus": {"--all", "--location", "--size"},
    "vm list-usage": {"--location", "-l"},
}  # fmt: skip
HELM = {
    "get values": {"--namespace", "--output"},
    "install": {"--namespace", "--create-namespace", "--set", "--values"},
    "rollback": {"--namespace"},
    "test": {"--namespace", "-n"},
    "uninstall": {"--namespace", "-n", "--wait"},
    "upgrade": {"--install", "--namespace", "-n", "--create-namespace", "--set", "--values"},
}
# Programs whose commands are not checked.
OTHERS = {"cosign", "docker", "eval", "gh", "git", "jq", "pipx", "pytest", "sed", "test", "wc"}


def those(*programs: str) -> list[Shown]:
    return [one for one in ALL if Path(one.words[0]).name in programs]


def each(*programs: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("line", those(*programs), ids=str)


def flags_of(words: tuple[str, ...]) -> set[str]:
    """The flags among the words before a `--`."""
    own = words[: words.index("--")] if "--" in words else words
    return {word.partition("=")[0] for word in own if re.match(r"--?[A-Za-z]", word)}


def test_commands_are_extracted() -> None:
    """From blocks and inline code, with continued lines, pipes and substitutions."""
    assert len(ALL) > 150
    assert {"gpu-provisioner", "make", "kubectl", "helm", "az"} <= {Path(one.words[0]).name for one in ALL}
    assert any(one.inline for one in ALL)
    text = "\n## A\n```console\n$ a b \\\n  c | d $(e)\nout\n```\n## B\n```console\n$ f\n```\n"
    (line,) = lines(text, "## A")
    assert list(commands(line)) == [(("e",), ()), (("a", "b", "c"), ()), (("d", "VALUE"), ())]


def test_every_program_is_checked_or_listed() -> None:
    named = {Path(one.words[0]).name for one in ALL}
    assert named - {"gpu-provisioner", "make", "kubectl", "helm", "az"} <= OTHERS


@each("gpu-provisioner")
def test_commands_of_the_program_parse(line: Shown) -> None:
    """Its variables exist, and `plan` succeeds for the examples."""
    assert set(line.variables) <= VARIABLES
    words = list(line.words[1:])
    command = words.pop(0) if words and not words[0].startswith("-") else "run"
    if line.inline and command in {"COMMAND", "release", "plan"}:
        return  # without required arguments
    assert command in COMMANDS
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):  # after --help
        assert parse([command, *words]).errors == ()
    files = re.findall(r"examples/\S+\.yaml", " ".join(words))
    assert all((ROOT / path).exists() for path in files)
    if command == "plan" and files:
        here = [str(ROOT / word) if word in files else word for word in words]
        assert run_command(["plan", *here], {}, out, err) == 0, err.getvalue()


@each("make")
def test_make_targets_and_variables_exist(line: Shown) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in line.words[1:]:
        name, equals, _ = word.partition("=")
        assert re.search(rf"^{name} *\??=" if equals else rf"^{re.escape(name)}:", makefile, re.MULTILINE) or (
            equals and name in makefile + (ROOT / "tests" / "cluster" / "assets.py").read_text(encoding="utf-8")
        )


@cache
def kubectl_flags(*verbs: str) -> set[str]:
    """The flags in the help of a kubectl command."""
    found = ""
    for words in ([*verbs, "--help"], ["options"]):
        ended = subprocess.run([KUBECTL, *words], capture_output=True, text=True, check=True, timeout=30)
        found += ended.stdout
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", found))


@each("kubectl")
def test_kubectl_commands_and_flags_exist(line: Shown) -> None:
    """The help of the installed kubectl contains them, and the examples exist."""
    words = line.words[1:]
    verbs = words[:2] if words[0] in {"auth", "rollout"} else words[:1]
    assert flags_of(words) <= kubectl_flags(*verbs)
    for path in re.findall(r"(?:examples|docs)/\S+", " ".join(words)):
        assert (ROOT / path).exists()


@each("az")
def test_az_commands_and_flags_are_in_the_reference(line: Shown) -> None:
    words = " ".join(word for word in line.words[1:] if not word.startswith("-"))
    known = sorted((name for name in AZ if words == name or words.startswith(f"{name} ")), key=len)
    assert known, "a command that is not in the list"
    assert flags_of(line.words) <= AZ[known[-1]] | AZ_ALWAYS


@each("helm")
def test_helm_commands_render(line: Shown, tmp_path: Path) -> None:
    """The flags exist, and the charts render with the values that the command sets."""
    words = list(line.words[1:])
    verb = next(name for name in sorted(HELM, key=len, reverse=True) if " ".join(words).startswith(name))
    assert flags_of(line.words) <= HELM[verb]
    charts = [word for word in words if word.startswith("charts/")]
    assert charts or verb not in {"install", "upgrade"}
    for chart in charts:
        values = _values(words) if Path(chart).name == "gpu-provisioner" else {}
        with helm_python.Chart.load(str(ROOT / chart)) as loaded:
            files = loaded.render(values, name="gpu-provisioner", namespace="gpu-provisioner")
        manifests = (text for name, text in files.items() if not name.endswith(".txt"))
        made = [one for text in manifests for one in yaml.safe_load_all(text) if isinstance(one, dict)]
        assert made


@pytest.mark.parametrize(("document", "block"), SNIPPETS, ids=[f"{name}:{n}" for n, (name, _) in enumerate(SNIPPETS)])
def test_yaml_blocks_are_valid(document: str, block: str) -> None:
    """Chart values render with Helm; NodeClaims, NodePools, parts of them, and other objects match their CRDs."""
    several = [*yaml.safe_load_all(block)]
    crds = {crd["spec"]["names"]["kind"]: crd for crd in (nodepool_crd(), agentpoolnodeclass_crd(), nodeoverlay_crd())}
    types: dict[str, type] = {
        "NodePool": NodePool,
        "NodeOverlay": NodeOverlay,
        "AgentPoolNodeClass": AgentPoolNodeClass,
        "Pod": Pod,
        "ResourceClaimTemplate": ResourceClaimTemplate,
    }
    if {one.get("kind") for one in several} <= types.keys():
        for one in several:
            msgspec.convert(one, types[one["kind"]])
            if crd := crds.get(one["kind"]):
                schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
                jsonschema_rs.validator_for(schema).validate(one)
        return
    (read,) = several
    if read.get("kind") == "GKMCache":  # another project's; tests/gkm.py has its fields
        return
    if set(read) <= set(defaults()):
        assert render({**NEEDED, **read})
        return
    pool_spec = crds["NodePool"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    if set(read) <= set(pool_spec):
        for key, value in read.items():
            jsonschema_rs.validator_for(pool_spec[key] | {"required": []}).validate(value)
        return
    if "karpenterProviders" in read:  # values of KAITO's chart
        for one in node_classes(read).objects():
            assert one["kind"] == "AgentPoolNodeClass"
            schema = crds[one["kind"]]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            jsonschema_rs.validator_for(schema).validate(one)
        return
    whole = nodeclaim_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    if read.get("kind") == "NodeClaim":
        jsonschema_rs.validator_for(whole).validate(read)
        return
    spec = whole["properties"]["spec"]["properties"]
    for key, value in read.items():
        if key == "metadata":
            assert set(value) <= {"annotations", "labels"}
        elif key == "tolerations":
            assert all(set(one) <= {"key", "operator", "value", "effect"} for one in value)
        else:
            assert key in {"spec", *spec}, document
            assert set(value) <= set(spec) if key == "spec" else True


def _values(words: list[str]) -> dict[str, object]:
    """The values that the command sets with `--set`; `--values` stands for the required values."""
    values: dict[str, object] = copy.deepcopy(NEEDED) if "--values" in words else {}
    for flag, written in pairwise(words):
        if flag == "--set":
            path, _, value = written.partition("=")
            below = values
            *above, key = path.split(".")
            for part in above:
                below = below.setdefault(part, {})  # type: ignore[assignment]
            below[key] = value
    return values

"""The workflows: nothing in them is misspelt, unpinned or more powerful than it must be, and each can be told so."""

import re
from typing import Any

import pytest
import yaml

from . import chartvalues
from .dockerfile import read
from .workflows import ROOT, names, parse, problems, text_of, workflow

BUILDER, IMAGE = read()


@pytest.mark.parametrize("name", names())
def test_nothing_is_wrong_with_it(name: str) -> None:
    """Keys, pins, permissions, needs, inputs, scripts: everything that can be known here."""
    assert problems(text_of(name)) == []


def test_there_is_one_for_each_thing_that_we_promise() -> None:
    assert names() == ["chart", "image", "release", "test"]


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("test", "timeout-minutes: 45", "timeout: 45", "test: key timeout"),
        ("test", "run: make test\n", "run: make tests\n", "test: step 3: make tests: there is no such target"),
        ("test", "permissions: {}\n", "permissions: write-all\n", "permissions at the top"),
        ("test", "contents: read", "contents: write", "may write although anybody may start it"),
        ("test", "contents: read", "content: read", "permission content"),
        ("test", "persist-credentials: false", "fetch-depth: 0", "leaves the token in the checkout"),
        ("test", "-r requirements.lock", "-r requirement.lock", "requirement.lock: there is no such file"),
        ("test", " # v5.0.0", "", "not pinned by commit and version"),
        ("test", "@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0", "@v5", "not pinned by commit and version"),
        ("image", "$IMAGE@$DIGEST", "$IMAGE@${{ github.ref }}", "an expression in a script is read as code"),
        ("image", "steps.build.outputs", "steps.push.outputs", "there is none of that name"),
        ("image", "    if: startsWith(github.ref, 'refs/tags/v')\n", "", "may write although anybody may start it"),
        ("image", "secrets.GITHUB_TOKEN", "secrets.REGISTRY", "nothing here needs a secret"),
        ("image", "-m tools.release", "-m tools.releases", "there is no such module"),
        ("chart", "done\n", "", "syntax error"),
        ("chart", "charts/gpu-provisioner-crd\n", "charts/gpu-crd\n", "there is no such file"),
        ("release", "needs: test\n", "needs: tests\n", "needs tests, which is no job"),
        ("release", "      attestations: write\n", "", "needs attestations: write"),
        ("release", "image: ${{ needs", "picture: ${{ needs", "input picture is not known"),
        ("release", "./.github/workflows/test.yml", "./.github/workflows/tests.yml", "which is not there"),
    ],
)
def test_what_is_planted_is_found(name: str, old: str, new: str, problem: str) -> None:
    """Each check can fail."""
    text = text_of(name)
    assert old in text
    assert [found for found in problems(text.replace(old, new)) if problem in found]


def test_a_key_that_is_written_twice_is_no_workflow() -> None:
    """GitHub would take the last one."""
    with pytest.raises(ValueError, match=r"written twice.*name"):
        parse("name: a\nname: b\n")


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in workflow(name)["jobs"].values() for step in job.get("steps", ())]


def test_the_image_is_built_with_all_that_its_labels_say() -> None:
    """Every argument that the labels want is given, none that the Dockerfile does not know; for two architectures."""
    built = [step["with"] for step in steps("image") if "build-push" in step.get("uses", "")]
    (published,) = [each for each in built if "push=true" in each.get("outputs", "")]
    given = dict(line.split("=", 1) for line in published["build-args"].splitlines())
    assert set(given) == set(IMAGE.arguments({}))
    assert set(given) <= set(IMAGE.arguments({})) | set(BUILDER.arguments({}))
    assert {each["platforms"] for each in built} == {"linux/amd64,linux/arm64"}
    assert (published["provenance"], published["sbom"]) == ("mode=max", True)


def test_what_is_published_is_what_the_chart_deploys() -> None:
    """The same name below the owner's; by digest, through the release."""
    name = workflow("image")["env"]["IMAGE"].rsplit("/", 1)[1]
    (deployed,) = {
        container["image"].partition(":")[0]
        for obj in chartvalues.render(chartvalues.NEEDED)
        if obj["kind"] == "Deployment"
        for container in obj["spec"]["template"]["spec"]["containers"]
    }
    assert deployed.split("/")[0] == workflow("image")["env"]["IMAGE"].split("/")[0]
    assert deployed.rsplit("/", 1)[1] == name
    assert workflow("release")["jobs"]["chart"]["with"] == {"image": "${{ needs.image.outputs.image }}"}


def test_nothing_is_published_before_it_is_tested() -> None:
    """Image, charts and page wait for the tests, directly or through each other."""
    jobs = workflow("release")["jobs"]

    def before(name: str) -> set[str]:
        needs = jobs[name].get("needs", [])
        direct = {needs} if isinstance(needs, str) else set(needs)
        return direct.union(*(before(other) for other in direct))

    assert jobs["test"]["uses"] == "./.github/workflows/test.yml"
    assert all("test" in before(name) for name in jobs if name != "test")


def test_every_suite_runs_somewhere() -> None:
    """Each `make test…` of the Makefile, on each Python that we support."""
    targets = set(re.findall(r"^(test[a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    run = {step.get("run", "").removeprefix("make ") for step in steps("test")}
    assert targets <= run
    pythons = workflow("test")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert pythons == ["3.11", "3.12", "3.13"]


def test_what_is_pinned_is_renewed() -> None:
    """The bases by digest and the actions by commit would otherwise grow old in silence."""
    config = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8"))
    assert config["version"] == 2
    renewed = {each["package-ecosystem"]: each for each in config["updates"]}
    assert set(renewed) == {"docker", "github-actions"}
    assert all(each["directory"] == "/" and each["schedule"]["interval"] for each in renewed.values())

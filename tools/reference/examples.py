"""`docs/reference/examples.md`: the example manifests, each with the comment of its first line."""

from pathlib import Path

from .markdown import block, page

FOLDER = Path(__file__).parents[2] / "examples"

INTRODUCTION = """\
The folder `examples/` of the repository contains one manifest for each use case. The tests apply each manifest
unchanged, compare the resulting agent pool and Node with its requirements, and delete it. The manifests in
`examples/pods/` belong together: [Pods become machines](../getting-started/pods.md).

```console
$ gpu-provisioner plan -f examples/first-gpu.yaml
$ kubectl apply -f examples/first-gpu.yaml
```"""

# In the order of the page, the most common use cases first.
ORDER = (
    "first-gpu", "cpu", "a100-multi", "h100-multi", "amd", "several-sizes", "zones", "spot", "mig", "azure-linux",
    "startup-taint", "long-jobs", "keep-broken", "kaito-workspace", "kaito-ragengine", "from-gpu-provisioner",
)  # fmt: skip

POD_ORDER = ("node-pool", "trainer", "intruder")


def render() -> str:
    """The page. Raises ValueError if `ORDER` and the files differ."""
    found = {path.stem: path for path in FOLDER.glob("*.yaml")}
    if odd := set(found) ^ set(ORDER):
        raise ValueError(f"ORDER and the files in examples/ differ: {sorted(odd)}")
    sections = []
    for stem in ORDER:
        head, _, body = found[stem].read_text(encoding="utf-8").partition("\n")
        sections.append(f"## {stem}\n\n{head.removeprefix('# ')}\n\n{block(body, 'yaml')}")
    return page("Examples", "examples", INTRODUCTION, *sections, *_pods())


def _pods() -> list[str]:
    """The manifests that belong together, from a NodePool to its pods."""
    sections = []
    for stem in POD_ORDER:
        head, _, body = (FOLDER / "pods" / f"{stem}.yaml").read_text(encoding="utf-8").partition("\n")
        sections.append(f"## pods/{stem}\n\n{head.removeprefix('# ')}\n\n{block(body, 'yaml')}")
    return sections

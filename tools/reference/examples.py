"""`docs/reference/examples.md`: the example manifests, each with the comment of its first line."""

from pathlib import Path

from .markdown import block, page

FOLDER = Path(__file__).parents[2] / "examples"

INTRODUCTION = """\
The folder `examples/` of the repository contains one manifest for each use case. The tests apply each manifest
unchanged, compare the resulting agent pool and Node with its requirements, and delete it. The manifests in
`examples/pods/` belong together: [Pods become machines](../getting-started/pods.md). `examples/nodepools/` is for
[When machines are removed](../how-to/disruption.md) and [Your own prices](../how-to/prices.md).
`examples/gpus/` is for [MIG](../how-to/mig.md),
[Time-slicing](../how-to/time-slicing.md) and the [GPU Operator](../how-to/device-plugin.md#gpu-operator): each of its
files has a NodePool and its node class. `examples/dra/` is for [Dynamic resource allocation](../how-to/dra.md),
`examples/gkm/` for [GPU kernel caches](../how-to/gkm.md).

```console
$ gpu-provisioner plan -f examples/first-gpu.yaml
$ kubectl apply -f examples/first-gpu.yaml
```"""

# In the order of the page, the most common use cases first.
ORDER = (
    "first-gpu", "cpu", "a100-multi", "h100-multi", "amd", "several-sizes", "zones", "spot", "mig", "azure-linux",
    "startup-taint", "long-jobs", "keep-broken", "kaito-workspace", "kaito-ragengine", "from-gpu-provisioner",
)  # fmt: skip

FOLDERS = {
    "pods": ("node-pool", "trainer", "intruder"),
    "dra": ("node-pool", "trainer"),
    "nodepools": ("class", "when-empty", "office-hours", "expiring", "static", "prices"),
    "gpus": ("mig-single", "mig-mixed", "time-slicing", "gpu-operator"),
    "gkm": ("machines",),
}


def render() -> str:
    """The page. Raises ValueError if `ORDER` and the files differ."""
    found = {path.stem: path for path in FOLDER.glob("*.yaml")}
    if odd := set(found) ^ set(ORDER):
        raise ValueError(f"ORDER and the files in examples/ differ: {sorted(odd)}")
    sections = []
    for stem in ORDER:
        head, _, body = found[stem].read_text(encoding="utf-8").partition("\n")
        sections.append(f"## {stem}\n\n{head.removeprefix('# ')}\n\n{block(body, 'yaml')}")
    return page("Examples", "examples", INTRODUCTION, *sections, *_folders())


def _folders() -> list[str]:
    """The files that belong together, in their order. Raises ValueError if `FOLDERS` and the files differ."""
    sections = []
    for folder, stems in FOLDERS.items():
        found = {path.stem: path for path in (FOLDER / folder).glob("*.yaml")}
        if odd := set(found) ^ set(stems):
            raise ValueError(f"FOLDERS and the files in examples/{folder}/ differ: {sorted(odd)}")
        for stem in stems:
            head, _, body = found[stem].read_text(encoding="utf-8").partition("\n")
            sections.append(f"## {folder}/{stem}\n\n{head.removeprefix('# ')}\n\n{block(body, 'yaml')}")
    return sections

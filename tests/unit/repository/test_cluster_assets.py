"""The cache of the programs that are built from Go: what names it, and how a further tool gets into an existing one."""

import stat
from pathlib import Path

import pytest

from tests import gotool
from tests.cluster import assets, gpunode

GO = """#!/bin/sh
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then shift; made=$1; fi
  last=$1; shift
done
echo "$last" >> "$XDG_CACHE_HOME/built"
touch "$made" && chmod +x "$made"
"""


def changed(module: Path, folder: Path, old: str, new: str) -> Path:
    """A copy of the module file in which every `old` is `new`."""
    text = module.read_text(encoding="utf-8")
    assert old in text
    made = folder / module.name
    made.write_text(text.replace(old, new), encoding="utf-8")
    return made


def test_the_cache_is_named_by_the_versions_of_the_modules(tmp_path: Path) -> None:
    """Another tool or comment leaves the name as it is, another version of a module changes it."""
    module, env = assets.module_file({}), {"XDG_CACHE_HOME": str(tmp_path)}
    folder = assets.cache(module, env)
    fewer_tools = changed(module, tmp_path, "\tk8s.io/kubernetes/cmd/kube-scheduler\n", "")
    assert assets.cache(fewer_tools, env) == folder
    direct = changed(module, tmp_path, "sigs.k8s.io/yaml v1.6.0 // indirect", "sigs.k8s.io/yaml v1.6.0")
    assert assets.cache(direct, env) == folder
    newer = changed(module, tmp_path, "sigs.k8s.io/yaml v1.6.0", "sigs.k8s.io/yaml v1.6.1")
    assert assets.cache(newer, env) != folder
    replaced = changed(module, tmp_path, "k8s.io/api => k8s.io/api v0.34.4", "k8s.io/api => k8s.io/api v0.34.5")
    assert assets.cache(replaced, env) != folder


def test_a_missing_tool_is_added_to_an_existing_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a cache does not have is built, and then the cache is complete."""
    go = tmp_path / "go"
    go.write_text(GO, encoding="utf-8")
    go.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    folder = assets.cache(assets.module_file(env), env)
    folder.mkdir(parents=True)
    for name in assets.NAMES:
        if name != "kube-scheduler":
            (folder / name).touch(mode=stat.S_IRWXU)
    with pytest.raises(gotool.MissingError, match="make cluster-tools"):
        assets.find(env)
    assert assets.build(env) == assets.find(env) == folder
    assert (tmp_path / "built").read_text(encoding="utf-8").split() == ["k8s.io/kubernetes/cmd/kube-scheduler"]


def test_the_device_manager_is_built_once_for_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the module versions of the control plane and a folder of its own in the cache."""
    go = tmp_path / "go"
    go.write_text(GO, encoding="utf-8")
    go.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    program = gpunode.build(env)
    assert gpunode.build(env) == program
    assert (tmp_path / "built").read_text(encoding="utf-8").split() == ["./gpunode"]
    assert (tmp_path / "gpu-provisioner" / "gpunode") in program.parents

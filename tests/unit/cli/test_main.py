"""The command line: help, version, config, invalid usage, and packages of other projects with the same name."""

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from provisioner.cli.definitions import COMMANDS
from provisioner.cli.installation import PACKAGES
from provisioner.cli.main import CLOSED, main, run_command
from provisioner.settings import OPTIONS
from provisioner.version import COMMIT, own_version

ROOT = Path(__file__).parents[3]
ENV: Mapping[str, str] = {
    "ARM_SUBSCRIPTION_ID": "11111111-2222-3333-4444-555555555555",
    "ARM_RESOURCE_GROUP": "rg-1",
    "AZURE_CLUSTER_NAME": "aks-1",
    "DEPLOYMENT_MODE": "managed",
    "HTTPS_PROXY": "http://user:hunter2@proxy.example.com:3128",
}


def command(*arguments: str, env: Mapping[str, str] = ENV) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command line."""
    out, err = io.StringIO(), io.StringIO()
    return run_command(arguments, env, out, err), out.getvalue(), err.getvalue()


# --- output ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("-help",), ("help",)])
def test_help_lists_every_command(arguments: tuple[str, ...]) -> None:
    """With its summary, independent of settings."""
    code, out, err = command(*arguments, env={})
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert all(f" {name} {described.summary}" in text for name, described in COMMANDS.items())


@pytest.mark.parametrize(
    "arguments", [("run", "--help"), ("config", "-help"), ("help", "run"), ("--metrics-port=1", "--help")]
)
def test_help_of_run_lists_every_setting(arguments: tuple[str, ...]) -> None:
    """With its environment variable and its text, independent of settings."""
    code, out, err = command(*arguments, env={})
    assert (code, err) == (0, "")
    text = "".join(out.split())
    assert all(f"--{option.flag}{option.env[0]}{option.help.replace(' ', '')}" in text for option in OPTIONS)


def test_help_imports_neither_an_sdk_nor_what_a_command_runs() -> None:
    """Nor the second distribution, nor what completion needs."""
    script = (
        "import io, sys; from provisioner.cli.main import run_command\n"
        "run_command(['--help'], {}, io.StringIO(), sys.stderr)\n"
        "foreign = ('azure', 'kubernetes_asyncio', 'provisioner.trial', 'provisioner.simulator',"
        " 'provisioner.cli.commands', 'provisioner.operator', 'controllers', 'cloudprovider', 'argcomplete')\n"
        "sys.exit(any(name.startswith(foreign) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    "arguments", [("version",), ("--version",), ("-version",), ("run", "--version"), ("--metrics-port=1", "--version")]
)
def test_version_is_that_of_the_distribution(arguments: tuple[str, ...]) -> None:
    """One line, independent of settings."""
    assert command(*arguments, env={}) == (0, f"gpu-provisioner {own_version()}\n", "")


@pytest.mark.parametrize(("commit", "shown"), [("0123456789abcdef", " (0123456)"), ("unknown", ""), ("", "")])
def test_version_contains_the_commit_of_the_image(monkeypatch: pytest.MonkeyPatch, commit: str, shown: str) -> None:
    monkeypatch.setenv(COMMIT, commit)
    assert command("version", env={}) == (0, f"gpu-provisioner {own_version()}{shown}\n", "")


def test_config_prints_each_value_and_its_source(tmp_path: Path) -> None:
    """Flag, environment, file, default; passwords of proxies are masked."""
    file = tmp_path / "settings.yaml"
    file.write_text("metrics-port: 9001\nhealth-probe-port: 9002\n")
    code, out, err = command(
        "config", "--metrics-port=9000", "--config", str(file), env={**ENV, "HEALTH_PROBE_PORT": "9003"}
    )
    shown = {line.split()[0]: line.split(maxsplit=1)[1].strip() for line in out.splitlines()}
    assert (code, err, sorted(shown)) == (0, "", sorted(option.flag for option in OPTIONS))
    assert shown["metrics-port"] == "9000  (flag --metrics-port)"
    assert shown["health-probe-port"] == "9003  (env HEALTH_PROBE_PORT)"
    assert shown["log-level"] == "info  (default)"
    assert "proxy.example.com" in shown["https-proxy"]
    assert "hunter2" not in out


@pytest.mark.parametrize(("encoding", "is_json"), [("json", True), ("console", False), ("auto", True)])
def test_the_log_encoding_is_configurable(encoding: str, is_json: bool) -> None:
    """The default is JSON without a terminal."""
    env = {**ENV, "LOG_ENCODING": encoding, "LOG_OUTPUT_PATHS": "file", "KUBECONFIG": "/nowhere"}
    code, _, err = command("run", env=env)
    warning = next(line for line in err.splitlines() if "LOG_OUTPUT_PATHS" in line)
    assert (code, warning.startswith("{")) == (2, is_json)


# --- invalid usage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("rnu",), ("rnu", "--help"), ("help", "rnu")])
def test_an_unknown_command_is_rejected(arguments: tuple[str, ...]) -> None:
    """The remedy begins with the most similar command and lists all."""
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(
        "gpu-provisioner: unknown command 'rnu'\n    Did you mean run? The commands are run, try, plan, schedule, "
    )
    assert command("xyzzy")[2].startswith("gpu-provisioner: unknown command 'xyzzy'\n    The commands are run, ")


@pytest.mark.parametrize("name", ["run", "config"])
def test_all_errors_are_reported_at_once(name: str) -> None:
    """Unknown flags, invalid and missing settings, each with its remedy."""
    code, out, err = command(
        name, "--gpu-raediness=report", "--metrics-port=http", "stray", env={"DEPLOYMENT_MODE": "managed"}
    )
    assert (code, bool(out)) == (2, name == "config")  # which prints the others
    head, *lines = err.splitlines()
    assert head == "gpu-provisioner: 6 settings are invalid:"
    causes, remedies = lines[::2], lines[1::2]
    assert [cause.split(":")[0].strip() for cause in causes] == [
        "--gpu-raediness=report",
        "stray",
        "--metrics-port=http",
        "ARM_SUBSCRIPTION_ID",
        "ARM_RESOURCE_GROUP",
        "AZURE_CLUSTER_NAME",
    ]
    assert all(remedy.startswith("    ") and len(remedy) > 20 for remedy in remedies)
    assert remedies[:2] == [
        "    Did you mean --gpu-readiness?",
        f"    Remove it; gpu-provisioner {name} --help lists the flags.",
    ]


def test_the_value_of_an_unknown_flag_is_masked() -> None:
    """It may be a URL with a password."""
    _, _, err = command("config", "--htps-proxy=http://user:hunter2@proxy.example.com")
    assert "--htps-proxy=" in err
    assert "hunter2" not in err
    assert "hunter2" not in command("gc", "--htps-proxy=http://user:hunter2@proxy.example.com")[2]
    assert "hunter2" not in command("config", "--htps-proxy", "http://user:hunter2@proxy.example.com")[2]


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "it cannot be read: FileNotFoundError"), ("a: [", "it cannot be read"), ("- a\n", "it is not a mapping")],
)
def test_an_invalid_settings_file_is_rejected(tmp_path: Path, text: str | None, why: str) -> None:
    """Missing, malformed, or a list."""
    path = tmp_path / "settings.yaml"
    if text is not None:
        path.write_text(text)
    code, _, err = command("config", f"--config={path}")
    assert code == 2
    assert f"{path}: {why}" in err


def test_missing_files_of_settings_are_reported(tmp_path: Path) -> None:
    """All at once, before the command connects."""
    gone = tmp_path / "gone"
    workload_identity = {"DEPLOYMENT_MODE": "", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c"}
    files = dict.fromkeys(("KUBECONFIG", "SSL_CERT_FILE", "AZURE_FEDERATED_TOKEN_FILE"), str(gone))
    code, out, err = command("run", env={**ENV, **workload_identity, **files})
    assert (code, out) == (2, "")
    for name in files:
        assert f"{name}={gone}: there is no such file" in err


# --- imports ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("namespace", [False, True])
def test_a_package_of_another_project_stops_the_start(tmp_path: Path, package: str, namespace: bool) -> None:
    """A folder with the name of a package earlier on the path."""
    folder = tmp_path / package
    folder.mkdir()
    if not namespace:
        (folder / "__init__.py").write_text("raise SystemExit('imported')")
    script = f"import sys; sys.path.insert(1, {str(ROOT)!r}); from provisioner.cli.main import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", script, "version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=30,
    )
    # A regular package takes precedence over a folder without __init__.py.
    expected = (0, True) if namespace else (2, False)
    assert (ended.returncode, ended.stderr == "") == expected
    if not namespace:
        cause, remedy = ended.stderr.splitlines()
        assert f"{package} ({folder})" in cause
        assert "virtual environment" in remedy


def test_ctrl_c_during_imports_prints_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("provisioner.cli.main.run_command", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


def test_the_reader_of_the_output_has_ended() -> None:
    """As after `| head` or a pager: no traceback, and the exit code of a process that SIGPIPE ended."""
    reader, writer = os.pipe()
    os.close(reader)
    script = "import sys; sys.argv[1:] = ['version']; from provisioner.cli.main import main; main()"
    with os.fdopen(writer, "w") as closed:
        ended = subprocess.run([sys.executable, "-c", script], check=False, stdout=closed, stderr=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (CLOSED, b"")

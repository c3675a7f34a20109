"""Runs LangGraph's own checkpointer tests on JsonlSaver: `python tests/upstream/run.py [leg ...]`.

The tests come from the sdist of the installed langgraph and run in an environment of their own with the
same versions of everything. Both are made at the first run, in `.upstream/` of the checkout, which git
ignores; later runs need no network. Nothing of LangGraph's tests is copied into this repository or
changed: `jsonl_plugin.py` puts JsonlSaver where they ask for a saver, and chooses which tests a leg runs.

`make upstream` runs all legs. Each prints pytest's own report, and a table follows:

| leg | what it shows |
|---|---|
| plain | every test that takes a checkpointer fixture |
| reopened | the same, and each call opens the saver and closes it: nothing lives in memory only |
| immutable | the same, and what was stored reads back equal when its successor is put |
| strict | the same under LANGGRAPH_STRICT_MSGPACK: the serde takes no class that it does not know |
| swapped | tests that build an InMemorySaver themselves get a JsonlSaver |
| prune | the contract that PostgresSaver's prune is held to |

`known` counts tests that are expected to fail, for the reasons that stand in `KNOWN` of the plugin.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
import venv
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".upstream"
PYTHON = PLACE / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"

# A leg: what its environment sets, and the files it looks for tests in.
LEGS = {
    "plain": ({}, "tests"),
    "reopened": ({}, "tests"),
    "immutable": ({}, "tests"),
    "strict": ({"LANGGRAPH_STRICT_MSGPACK": "true"}, "tests"),
    "swapped": ({}, "tests"),
    # These are skipped without a Postgres: say that there is one. The plugin lets no test reach for it.
    "prune": ({"NO_DOCKER": "false"}, "tests/test_prune_postgres.py"),
}

# What LangGraph's conftest and the checkpointer tests import, and how they are run. Not langchain: where that
# is installed, `test_weather_subgraph` fails on any saver, for a key that it adds to a stream's metadata.
NEEDED = (
    "anyio",
    "httpx",
    "langgraph",
    "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-sqlite",
    "psycopg[binary]",
    "psycopg-pool",
    "pycryptodome",
    "pytest",
    "pytest-dotenv",
    "pytest-mock",
    "pytest-repeat",
    "pytest-timeout",
    "pytest-xdist[psutil]",
    "redis",
    "syrupy",
    "uvloop",
)


# Without LangGraph's own `addopts`, which print each traceback to its bottom. The ignored file needs a server, is
# skipped whole without it, and has no checkpointer in it.
PYTEST = (
    "-q --tb=short --disable-warnings -o addopts=--strict-markers -p no:cacheprovider -p jsonl_plugin "
    "-n auto --dist=worksteal --timeout=60 --ignore=tests/test_remote_graph.py"
)


def install() -> None:
    """Makes the environment, with the versions that the project itself is tested with."""
    found = {f"{d.name}=={d.version}" for d in metadata.distributions()}
    pins = sorted(pin for pin in found if not pin.startswith("langgraph-jsonl-checkpoint"))
    wanted = "\n".join([*NEEDED, *pins])
    stamp = PLACE / "venv" / "installed"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    venv.create(PLACE / "venv", with_pip=True, clear=True)
    constraints = PLACE / "constraints.txt"
    constraints.write_text("\n".join(pins))
    pip("install", "--constraint", constraints, "--editable", ROOT, *NEEDED)
    stamp.write_text(wanted)


def fetch() -> Path:
    """The folder with the tests of the installed langgraph, and with its pytest settings."""
    name = f"langgraph-{metadata.version('langgraph')}"
    if not (PLACE / name).is_dir():
        pip("download", "--no-deps", "--no-binary", "langgraph", "--dest", PLACE, name.replace("-", "==", 1))
        with tarfile.open(PLACE / f"{name}.tar.gz") as sdist:
            # Not the package beside the tests: it would be imported instead of the installed one.
            members = [m for m in sdist if m.name.startswith((f"{name}/tests/", f"{name}/pyproject.toml"))]
            sdist.extractall(PLACE / "part", members, filter="data")
        (PLACE / "part" / name).rename(PLACE / name)
    return PLACE / name


def pip(*arguments: str | Path) -> None:
    """Runs the environment's pip."""
    command = [PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


def run(leg: str, folder: Path) -> tuple[int, int, int, float]:
    """Runs one leg: tests passed, failed, and expected to fail, and the seconds it took."""
    settings, tests = LEGS[leg]
    report = PLACE / f"{leg}.xml"
    report.unlink(missing_ok=True)
    started = time.monotonic()
    command = [PYTHON, "-m", "pytest", *PYTEST.split(), f"--leg={leg}", f"--junitxml={report}", tests]
    path = str(Path(__file__).parent)
    env = {"NO_DOCKER": "true", **os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **settings}
    subprocess.run(command, cwd=folder, env=env, check=False)
    took = time.monotonic() - started
    if not report.is_file():
        return 0, 1, 0, took
    suite = ET.parse(report).getroot()[0]
    total, failures, errors, skipped = (int(suite.get(k, 0)) for k in ("tests", "failures", "errors", "skipped"))
    known = sum(s.get("type") == "pytest.xfail" for s in suite.iter("skipped"))
    # A test that was skipped did not show what it is here to show.
    return total - failures - errors - skipped, failures + errors + skipped - known, known, took


def main(legs: list[str]) -> int:
    """Runs the named legs, or all; 1 if a test failed or a leg had none."""
    if unknown := set(legs) - set(LEGS):
        sys.exit(f"no such leg: {', '.join(sorted(unknown))}; there are {', '.join(LEGS)}")
    PLACE.mkdir(exist_ok=True)
    install()
    folder = fetch()
    results = {leg: run(leg, folder) for leg in legs or LEGS}
    sys.stdout.write(f"\n{folder.name}\n{'leg':10} {'passed':>6} {'failed':>6} {'known':>6} {'seconds':>8}\n")
    for leg, (passed, failed, known, took) in results.items():
        sys.stdout.write(f"{leg:10} {passed:6} {failed:6} {known:6} {took:8.0f}\n")
    return int(any(failed or not passed for passed, failed, _, _ in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

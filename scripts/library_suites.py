"""Run the test suites of Triton libraries, unmodified, on the emulated device.

    scripts/library_suites [--suite NAME] [--chip mi300x] [--work FOLDER] [--clone NAME=PATH]
    scripts/library_suites --table

Versions are pinned by commit. Sources come from GitHub, or from a clone that `--clone` names. Each
suite gets a virtual environment on top of this one. A run can be interrupted and is taken up where
it stopped; a test that says nothing for `--test-limit` seconds is ended and counted as such.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
POLL_S = 2.0
OUTCOMES = ("passed", "failed", "skipped", "xfailed", "stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A library's suite at one version.

    Attributes:
        sources: What is taken of the repository; everything by default.
        requirements: What the tests import beside torch, triton and pytest.
        tests: The files to run, in this order.
        every: Files of which one test in so many is run.
        left_out: Patterns of tests that are not run, with the reason.
    """

    name: str
    repository: str
    tag: str
    commit: str
    requirements: tuple[str, ...]
    tests: tuple[str, ...]
    sources: tuple[str, ...] = ()
    every: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def list_files(folder: str, names: str) -> tuple[str, ...]:
    """Paths of test files from their short names."""
    return tuple(f"{folder}/test_{name}.py" for name in names.split())


# Liger's files whose shapes suit a processor; the others follow in the order of their names.
LIGER_SMALL = list_files(
    "test/transformers",
    "softmax rms_norm fused_add_rms_norm layer_norm group_norm embedding relu_squared sparsemax "
    "dyt poly_norm mhc fused_moe mm_int8int2 multi_token_attention qwen2vl_mrope "
    "fused_neighborhood_attention attn_res modulated_rms_norm tiled_mlp rope llama4_rope utils "
    "auto_model monkey_patch",
)
LIGER_LARGE = list_files(
    "test/transformers",
    "jsd kl_div grpo_loss fused_linear_jsd fused_linear_cross_entropy cross_entropy "
    "fused_linear_scaled_cross_entropy tvd flex_attention moe geglu swiglu trainer_integration "
    "transformers",
)

SUITES = (
    Suite(
        name="conch",
        repository="stackav-oss/conch",
        tag="v1.3",
        commit="accec840f42cfbfff5e3a2f2f33d56c0a6042933",
        requirements=("einops==0.8.1",),
        tests=("tests",),
        every={
            "tests/paged_attention_test.py": 12,
            "tests/varlen_attention_test.py": 24,
            "tests/reshape_and_cache_test.py": 24,
            "tests/nms_test.py": 3,
        },
        left_out={
            "*4096-2048-4096*": "69 GFLOP in one launch",
            "*_vs_flash_attn*": "the suite skips it without vLLM",
            "*test_varlen_attention_decode*": "the suite skips it without vLLM",
            "*test_vllm_crash*": "the suite skips it without vLLM",
        },
    ),
    Suite(
        name="liger",
        repository="linkedin/Liger-Kernel",
        tag="v0.8.2",
        commit="000be60929938fd1358e03524c6ab398b6d421bd",
        requirements=("transformers==4.57.6",),
        # All but the data of its convergence tests, which are not run.
        sources=("pyproject.toml", "src", "test/*.py", "test/transformers"),
        tests=LIGER_SMALL + LIGER_LARGE,
        every={
            "test/transformers/test_dyt.py": 6,
            "test/transformers/test_attn_res.py": 3,
            "test/transformers/test_modulated_rms_norm.py": 4,
            "test/transformers/test_tiled_mlp.py": 6,
            **dict.fromkeys(LIGER_LARGE, 20),
        },
        left_out={
            "*/test_cute*": "NVIDIA's compilers",
            "*/test_cutile*": "NVIDIA's compilers",
            "*/test_swiglu_cutedsl*": "NVIDIA's compilers",
            "*dtensor*": "several GPUs; xfail without",
        },
    ),
)


def run(*command: str | Path, **options: object) -> None:
    """Run a command that must succeed."""
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


def find_sources(suite: Suite, work: Path, clones: dict[str, Path]) -> Path:
    """The folder of a suite's unpacked sources."""
    folder = work / f"{suite.name}-{suite.tag}"
    if folder.exists():
        return folder
    clone = clones.get(suite.name)
    if clone is None:
        clone = work / f"{suite.name}.git"
        run("git", "init", "--quiet", "--bare", clone)
        url = f"https://github.com/{suite.repository}"
        run("git", "-C", clone, "fetch", "--quiet", "--depth", "1", url, f"refs/tags/{suite.tag}")
        found = subprocess.check_output(
            ["git", "-C", str(clone), "rev-parse", "FETCH_HEAD^{commit}"], text=True
        ).strip()
        if found != suite.commit:
            raise SystemExit(f"{suite.name}: tag {suite.tag} is {found}, not {suite.commit}")
    command = ["git", "-C", str(clone), "archive", suite.commit, "--", *suite.sources]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    partial = folder.with_name(folder.name + ".partial")
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(partial, filter="data")
    partial.rename(folder)
    return folder


def find_python(suite: Suite, work: Path) -> Path:
    """The Python of a suite's virtual environment, which sees this one's packages."""
    folder = work / f"venv-{suite.name}"
    python = folder / "bin" / "python"
    stamp = folder / "requirements.txt"
    wanted = "\n".join(suite.requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    run(sys.executable, "-m", "venv", folder)
    layout = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", vars=layout))
    (packages / "below.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(python, "-m", "pip", "install", "--quiet", *suite.requirements)
    stamp.write_text(wanted)
    return python


def read_record(path: Path) -> tuple[dict[str, int], dict[str, dict[str, object]]]:
    """Numbers of collected tests by file, and the last line of each test."""
    collected: dict[str, int] = {}
    tests: dict[str, dict[str, object]] = {}
    for text in path.read_text().splitlines() if path.exists() else ():
        line = json.loads(text)
        if "collected" in line:
            collected = line["collected"]
        elif tests.get(line["test"], {}).get("outcome") != "failed":
            tests[line["test"]] = line
    return collected, tests


def stop_running_test(path: Path) -> bool:
    """Mark the test that a process left unfinished; whether there was one."""
    unfinished = [name for name, line in read_record(path)[1].items() if "outcome" not in line]
    with path.open("a") as file:
        for name in unfinished:
            file.write(json.dumps({"test": name, "outcome": "stopped", "seconds": 0.0}) + "\n")
    return bool(unfinished)


def pytest_command(suite: Suite, python: Path, chip: str) -> list[str]:
    """One process for all tests that are still to run."""
    return [
        *(sys.executable, "-m", "asmevo", "emulate", "--chip", chip, "--"),
        *(str(python), "-m", "pytest", "-q", "-p", "suite_record", "-p", "no:cacheprovider"),
        *suite.tests,
    ]


def wait_for(process: subprocess.Popen[bytes], record: Path, limit_s: float) -> None:
    """Wait until a process ends or its record has not grown for the limit."""
    size, since = -1, time.monotonic()
    while process.poll() is None:
        now = record.stat().st_size if record.exists() else 0
        if now != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since > limit_s:
            return
        time.sleep(POLL_S)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that its tests started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_suite(suite: Suite, arguments: argparse.Namespace) -> None:
    """Run what is left of a suite; a process that a test ends is followed by another one."""
    work: Path = arguments.work
    folder = find_sources(suite, work, arguments.clone)
    command = pytest_command(suite, find_python(suite, work), arguments.chip)
    record = record_path(suite, work, arguments.chip)
    paths = [str(ROOT), str(ROOT / "scripts" / "lib")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "SUITE_RECORD": str(record),
        "SUITE_EVERY": json.dumps(suite.every),
        "SUITE_LEFT_OUT": json.dumps(list(suite.left_out)),
    }
    while True:
        with record.with_suffix(".log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                wait_for(process, record, arguments.test_limit)
            finally:
                end(process)
        was_ended = process.returncode == -signal.SIGKILL
        if not stop_running_test(record):
            if was_ended:
                print(
                    f"{suite.name}: no test was started for --test-limit seconds", file=sys.stderr
                )
            return


def record_path(suite: Suite, work: Path, chip: str) -> Path:
    """Where a suite's results are kept."""
    return work / f"{suite.name}-{suite.tag}-{chip}.jsonl"


def format_table(suite: Suite, record: Path) -> Iterable[str]:
    """Rows for each file: how many tests were collected, run, and what came of them."""
    collected, tests = read_record(record)
    counts: dict[str, Counter[str]] = {name: Counter() for name in collected}
    seconds: defaultdict[str, float] = defaultdict(float)
    for name, line in tests.items():
        file = name.partition("::")[0]
        if "outcome" not in line:
            continue  # it is running
        counts.setdefault(file, Counter())[str(line["outcome"])] += 1
        seconds[file] += float(str(line.get("seconds", 0.0)))
    yield f"{suite.name} {suite.tag} ({suite.repository})"
    yield f"| file | collected | run | {' | '.join(OUTCOMES)} | seconds |"
    yield "|---|" + "---:|" * (len(OUTCOMES) + 3)
    total: Counter[str] = Counter()
    for file, outcomes in counts.items():
        row = Counter({"collected": collected.get(file, 0), "run": outcomes.total(), **outcomes})
        total.update(row)
        total["seconds"] += round(seconds[file])
        yield format_row(file, row, round(seconds[file]))
    yield format_row("all", total, total["seconds"])


def format_row(name: str, row: Counter[str], seconds: int) -> str:
    """One line of the table."""
    numbers = [row[key] for key in ("collected", "run", *OUTCOMES)]
    return f"| {name} | {' | '.join(map(str, [*numbers, seconds]))} |"


def parse_clone(text: str) -> tuple[str, Path]:
    """Read NAME=PATH."""
    name, _, path = text.partition("=")
    if name not in {suite.name for suite in SUITES} or not Path(path).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FOLDER of a known suite")
    return name, Path(path).resolve()


def main() -> None:
    """Read the command line and run."""
    cache = Path(os.environ.get("ASMEVO_CACHE") or Path.home() / ".cache" / "asmevo")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [suite.name for suite in SUITES]
    parser.add_argument("--suite", choices=names, action="append", help="which; all by default")
    parser.add_argument("--chip", default="mi300x", help="the emulated chip")
    parser.add_argument("--work", type=Path, default=cache / "suites", help="sources and results")
    parser.add_argument(
        "--clone", type=parse_clone, action="append", default=[], metavar="NAME=PATH"
    )
    parser.add_argument("--test-limit", type=float, default=300.0, help="seconds for one test")
    parser.add_argument("--table", action="store_true", help="print results and run nothing")
    arguments = parser.parse_args()
    arguments.clone = dict(arguments.clone)
    arguments.work.mkdir(parents=True, exist_ok=True)
    for suite in SUITES:
        if arguments.suite and suite.name not in arguments.suite:
            continue
        if not arguments.table:
            run_suite(suite, arguments)
        print("\n".join(format_table(suite, record_path(suite, arguments.work, arguments.chip))))


if __name__ == "__main__":
    main()

"""The capture command: snapshot kernel dispatches of live processes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.commands import capture_options as given
from asmevo.commands.options import AsJson

if TYPE_CHECKING:
    from asmevo.capture.outcome import CaptureOptions, CaptureResult
    from asmevo.capture.touched import Helpers
    from asmevo.commands.capture_output import Progress

__all__ = ["register"]

app = typer.Typer(no_args_is_help=True, help="Capture kernel dispatches of live processes")

Pid = Annotated[int, typer.Argument(metavar="PID", min=1, help="Process that launches kernels")]


def register(parent: typer.Typer) -> None:
    """Add the command to the command line."""
    parent.add_typer(app, name="capture")


@app.callback()
def capture() -> None:
    """Capture kernel dispatches of live processes."""


@app.command("attach", no_args_is_help=True)
def attach(
    pid: Pid,
    *,
    output: given.Output,
    kernel: given.Globs = None,
    count: given.Count = None,
    timeout: given.Timeout = 30.0,
    duration: given.For = None,
    top: given.Top = 0,
    watch: given.Watch = "2s",
    shapes: given.Shapes = False,
    nth: given.Nth = 1,
    every: given.Every = 1,
    max_bytes: given.MaxBytes = "2GiB",
    golden: given.Golden = True,
    graph: given.Graph = False,
    policy: given.Policy = "touched",
    window: given.Window = "1MiB",
    redact: given.Redact = False,
    children: given.Children = False,
    as_json: AsJson = False,
) -> None:
    """Capture dispatches of a running process, then let go of it

    The process goes on working. A bundle holds memory of the process, before
    and after the launch: treat it as a memory dump.

    asmevo capture attach 1234 --kernel 'softmax*' -o captures

    asmevo capture attach 1234 --children --top 5 --shapes --for 30s -o captures
    """
    options = _select(by_process=children, **{k: v for k, v in locals().items() if k in _SELECTS})
    from asmevo.commands.capture_output import Progress, print_result

    with (
        given.output_folder(output),
        _helpers(options, redact=redact) as helpers,
        Progress() as progress,
    ):
        if children:
            from asmevo.capture.follow import capture_tree

            result = capture_tree(pid, options, progress, helpers)
        else:
            result = _capture_one(pid, options, progress, helpers)
    print_result(result, options, as_json=as_json)
    _fail_if_empty(result)


@app.command("run", no_args_is_help=True)
def run(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD…", help="The program and its arguments")
    ],
    *,
    output: given.Output,
    kernel: given.Globs = None,
    count: given.Count = None,
    timeout: given.Timeout = 86400.0,
    duration: given.For = None,
    top: given.Top = 0,
    watch: given.Watch = "2s",
    shapes: given.Shapes = False,
    nth: given.Nth = 1,
    every: given.Every = 1,
    max_bytes: given.MaxBytes = "2GiB",
    golden: given.Golden = True,
    graph: given.Graph = False,
    policy: given.Policy = "touched",
    window: given.Window = "1MiB",
    redact: given.Redact = False,
    as_json: AsJson = False,
) -> None:
    """Start a program and capture it from its first launch

    Processes that it starts are captured too, a folder each. The program runs
    to its end, after the capture without hooks.

    asmevo capture run --kernel 'softmax*' -o captures -- python serve.py

    asmevo capture run --top 5 --watch 30s -o captures -- vllm serve MODEL
    """
    options = _select(by_process=True, **{k: v for k, v in locals().items() if k in _SELECTS})
    # A launch may be the only one, and at the start a pause harms nobody: all is copied at once.
    options = replace(options, whole_bytes=options.max_bytes)
    from asmevo.capture.started import capture_started
    from asmevo.commands.capture_output import Progress, print_result

    with given.output_folder(output), _helpers(options, redact=redact) as helpers:
        result, code = capture_started(command, options, Progress(), helpers)
    print_result(result, options, as_json=as_json, to_stderr=True)
    if code != 0:
        typer.echo(f"asmevo: warning: the program ended with exit code {code}", err=True)
    _fail_if_empty(result)


@app.command("list", no_args_is_help=True)
def list_kernels(
    pid: Pid,
    *,
    duration: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long to count (500ms, 30s)")
    ] = "2s",
    children: Annotated[
        bool, typer.Option("--children", help="Also the processes below it")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the kernels that a process launches, the heaviest first

    Launches are counted for a while; some are timed by events around them.
    The process goes on working, and nothing is captured.

    asmevo capture list 1234

    asmevo capture list 1234 --children --for 10s --json
    """
    from asmevo.capture.usage import list_usage
    from asmevo.commands.capture_output import print_usage
    from asmevo.quantities import parse_duration

    usages = list_usage(pid, parse_duration(duration), with_children=children)
    print_usage(usages, as_json=as_json)


_SELECTS = frozenset(given.Selection.__dataclass_fields__)


def _select(*, by_process: bool, **values: object) -> CaptureOptions:
    return given.Selection(**values).to_options(by_process=by_process)  # type: ignore[arg-type]


@contextlib.contextmanager
def _helpers(options: CaptureOptions, *, redact: bool) -> Iterator[Helpers]:
    """What executes captured dispatches, where that is needed."""
    from asmevo.capture.manifest import Policy
    from asmevo.capture.touched import Helpers

    if options.policy is not Policy.TOUCHED and not redact:
        yield Helpers()
        return
    from asmevo.replay.touch_tracer import TouchTracer

    with TouchTracer() as tracer:
        redactor = None
        if redact:
            from asmevo.replay.redact import Redactor

            redactor = Redactor(tracer)
        yield Helpers(tracer=tracer, redactor=redactor)


def _capture_one(
    pid: int, options: CaptureOptions, progress: Progress, helpers: Helpers
) -> CaptureResult:
    from asmevo.capture.attach import attach as attach_to
    from asmevo.capture.collector import collect
    from asmevo.capture.crew import choose_heaviest

    with attach_to(pid) as target:
        progress.attached(pid)
        return collect(target, choose_heaviest(target, options), progress, helpers)


def _fail_if_empty(result: CaptureResult) -> None:
    from asmevo.capture.outcome import find_failure

    if failure := find_failure(result):
        raise failure

"""Collects dispatches from a hooked target: answers its questions and writes the bundles."""

from __future__ import annotations

import fnmatch
import mmap
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from asmevo.capture.bundle import open_bundle
from asmevo.capture.bundle_writer import BundleWriter
from asmevo.capture.control_block import (
    MAX_LAYOUTS,
    ControlBlock,
    Record,
    RecordStatus,
    State,
    Verdict,
)
from asmevo.capture.kernel_layout import find_variables, make_layout
from asmevo.capture.kernel_locator import (
    LOCAL_SIZE,
    MAX_THREADS,
    REGISTERS,
    SHARED_SIZE,
    locate_kernel,
)
from asmevo.capture.loaded_objects import LoadedKernel, LoadedObjects
from asmevo.capture.manifest import Policy
from asmevo.capture.outcome import Captured, CaptureOptions, CaptureResult, GraphUse
from asmevo.capture.page_search import PageSearch
from asmevo.capture.target_process import ProcessMemory, TargetProcess
from asmevo.capture.touched import Helpers
from asmevo.errors import BundleError, CaptureError, TargetError
from asmevo.host_memory import available_bytes

__all__ = ["Collector", "Observer", "Target", "collect"]

_POLL_S = 0.001
_EXIT_S = 2.0
_READ_AHEAD_S = 2.0  # at most, for code objects that are loaded already
_RETRY_S = 0.02  # after a launch that could not be captured
_MAX_REFUSALS = 50  # in a row, until a kernel is given up
_SETTLE_S = 1.0  # a glob with wildcards waits so long for further kernels
_ALONE = Helpers()
_ATTRIBUTES = (MAX_THREADS, SHARED_SIZE, LOCAL_SIZE, REGISTERS)  # in the record's order


class Target(Protocol):
    """What the collector needs of a target."""

    process: TargetProcess
    control: ControlBlock
    memory: ProcessMemory
    objects: LoadedObjects

    @property
    def is_alive(self) -> bool:
        """False once the process has ended."""

    @property
    def data(self) -> mmap.mmap:
        """The memory with the snapshots."""

    def reserve(self, size: int) -> None:
        """Make that memory larger."""

    def hook(self) -> int:
        """Put the hooks in."""

    def start(self) -> None:
        """Everything is set up: let a program that waits go on."""

    def forget_functions(self) -> None:
        """Have every function asked about again."""


class Observer(Protocol):
    """Told what happens, for a progress display."""

    def captured(self, captured: Captured) -> None:
        """A bundle was written."""

    def refused(self, kernel: str, reason: str) -> None:
        """A dispatch could not be captured."""


@dataclass(slots=True)
class _Variant:
    """A kernel of one code object: what is captured of it."""

    loaded: LoadedKernel
    layout: int
    taken: int = 0
    refusals: int = 0
    is_given_up: bool = False


@dataclass(slots=True)
class _State:
    """Everything known during one capture."""

    variants: dict[tuple[str, str, int], _Variant] = field(default_factory=dict)
    functions: dict[tuple[int, int], _Variant] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    captured: list[Captured] = field(default_factory=list)
    last_news: float = 0.0


def collect(
    target: Target,
    options: CaptureOptions,
    observer: Observer,
    helpers: Helpers = _ALONE,
) -> CaptureResult:
    """Capture until every wanted kernel has its dispatches, or the time is over.

    Raises:
        TargetError: The target ended, or the hooks took themselves out.
    """
    return Collector(target, options, observer, helpers).run()


class Collector:
    """One capture of one target; `run` does it, `stop` may end it from another thread."""

    def __init__(
        self,
        target: Target,
        options: CaptureOptions,
        observer: Observer,
        helpers: Helpers = _ALONE,
    ) -> None:
        """Nothing is hooked yet."""
        self._target = target
        self._control = target.control
        self._options = options
        self._observer = observer
        self._writer = BundleWriter(target.process, options, helpers.redactor)
        self._search = None
        if options.policy is Policy.TOUCHED and helpers.tracer is not None:
            self._search = PageSearch(helpers.tracer, self._writer, self._control)
        self._state = _State()
        self._generation = 1  # of the target's modules; another one with each that is unloaded
        self._is_stopped = threading.Event()

    def stop(self) -> None:
        """Have `run` return what there is."""
        self._is_stopped.set()

    @property
    def is_settled(self) -> bool:
        """Every kernel seen has its dispatches, and no further ones are likely."""
        pending = (
            variant
            for variant in list(self._state.variants.values())
            if variant.taken < self._options.count and not variant.is_given_up
        )
        if any(pending):
            return False
        has_wildcards = any(set(glob) & set("*?[") for glob in self._options.globs)
        return not has_wildcards or time.monotonic() - self._state.last_news > _SETTLE_S

    def run(self) -> CaptureResult:
        """Capture, as `collect` says."""
        self._configure()
        self._target.objects.read_ahead(_READ_AHEAD_S)
        self._target.hook()
        deadline = time.monotonic() + self._options.timeout_s
        self._control.set_state(State.ARMED)
        self._target.start()
        while not self._is_complete() and time.monotonic() < deadline:
            if not self._target.is_alive:
                if self._state.captured:  # what it did until then is whole
                    break
                raise TargetError(f"process {self._target.process.pid} ended during the capture")
            state = self._control.state
            if state is State.CLOSED:
                self._explain_closed()
            if state is State.READY:
                self._handle(self._control.fields.record)
                self._control.set_state(State.ARMED)
            else:
                time.sleep(_POLL_S)
        return CaptureResult(
            captured=tuple(self._state.captured),
            refused=tuple(self._state.refused.items()),
            unmatched=self.unmatched(),
            incomplete=tuple(
                (name, variant.taken)
                for (name, _, _), variant in self._state.variants.items()
                if 0 < variant.taken < self._options.count
            ),
            seen=self._control.seen_names,
            graphs=self._graph_use(),
        )

    def _configure(self) -> None:
        options, fields = self._options, self._control.fields
        self._control.set_globs(options.globs)
        fields.max_bytes = options.max_bytes
        fields.first_call = options.first_call
        fields.every = options.every
        fields.takes_shapes = options.takes_shapes
        fields.takes_after = options.takes_golden
        fields.takes_graphs = options.takes_graphs
        fields.scan_bytes = options.scan_bytes
        is_window = options.policy is Policy.WINDOW
        fields.window_bytes = options.window_bytes if is_window else 0
        fields.whole_bytes = options.whole_bytes if self._search is not None else 0

    def _graph_use(self) -> GraphUse:
        fields = self._control.fields
        kernels = tuple(
            (name, int(counted.graph_launches))
            for name, counted in self._control.statistics()
            if counted.graph_launches
            and any(fnmatch.fnmatchcase(name, glob) for glob in self._options.globs)
        )
        return GraphUse(
            launches=int(fields.graph_launches),
            unknown=int(fields.unknown_graph_launches),
            kernels=kernels,
        )

    def _explain_closed(self) -> NoReturn:
        """A process that exits takes the hooks out a moment before it is gone."""
        deadline = time.monotonic() + _EXIT_S
        while time.monotonic() < deadline:
            if not self._target.is_alive:
                raise TargetError(f"process {self._target.process.pid} ended during the capture")
            time.sleep(_POLL_S)
        raise TargetError(
            "the hooks took themselves out: asmevo was stopped for too long, or the process ends"
        )

    def _is_complete(self) -> bool:
        if self._is_stopped.is_set():
            return True
        return not self._options.stays and self.is_settled and not self.unmatched()

    def unmatched(self) -> tuple[str, ...]:
        """Globs that no kernel has matched yet."""
        names = {name for name, _, _ in list(self._state.variants)} | set(self._state.refused)
        return tuple(
            glob
            for glob in self._options.globs
            if not any(fnmatch.fnmatchcase(name, glob) for name in names)
        )

    def _handle(self, record: Record) -> None:
        name = bytes(record.name[: record.name_bytes]).decode(errors="replace")
        key = (int(record.function), int(record.generation))
        variant = self._state.functions.get(key)
        try:
            if record.status == RecordStatus.QUESTION:
                self._state.last_news = time.monotonic()
                self._answer(record, name, key)
            elif record.status == RecordStatus.NEED_SPACE:
                self._make_room(int(record.need_bytes))
            elif record.status == RecordStatus.CAPTURED and variant is not None:
                self._write(record, name, variant)
            elif record.status == RecordStatus.REFUSED:
                self._note_refusal(record, name, variant)
        except (CaptureError, BundleError) as error:
            self._refuse(name, str(error))
            self._control.answer(record, Verdict.UNWANTED)
            if variant is not None:
                variant.is_given_up = True

    def _answer(self, record: Record, name: str, key: tuple[int, int]) -> None:
        """Find the code object of a function and tell the hot path its layout."""
        if self._generation != record.generation:
            self._generation = int(record.generation)
            self._target.objects.forget()
        candidates = self._target.objects.find_kernels(name)
        loaded = locate_kernel(
            candidates,
            function=int(record.handle),
            attributes=dict(zip(_ATTRIBUTES, record.attributes, strict=False)),
            memory=self._target.memory,
            needs_address=any(find_variables(one.code_object) for one in candidates),
        )
        # Equal code loaded twice is one kernel, unless each has variables of its own.
        has_variables = bool(find_variables(loaded.code_object))
        content = (name, loaded.code_object.sha256, loaded.load_bias if has_variables else 0)
        variant = self._state.variants.get(content)
        if variant is None:
            if len(self._state.variants) >= MAX_LAYOUTS:
                raise CaptureError(f"more than {MAX_LAYOUTS} kernels match")
            variant = _Variant(loaded=loaded, layout=len(self._state.variants))
            self._control.set_layout(variant.layout, make_layout(loaded))
            self._state.variants[content] = variant
        self._state.functions[key] = variant
        self._answer_wanted(record, variant)

    def _answer_wanted(self, record: Record, variant: _Variant) -> None:
        is_wanted = variant.taken < self._options.count and not variant.is_given_up
        verdict = Verdict.WANTED if is_wanted else Verdict.UNWANTED
        self._control.answer(record, verdict, variant.layout)

    def _make_room(self, need_bytes: int) -> None:
        available = available_bytes()
        if need_bytes > available // 2:
            raise CaptureError(
                f"its snapshots take {need_bytes} bytes; {available} are free on this machine"
            )
        self._target.reserve(need_bytes)

    def _write(self, record: Record, name: str, variant: _Variant) -> None:
        if name != variant.loaded.kernel.name:
            raise CaptureError("its handle was given to another kernel")
        if variant.taken < self._options.count:
            path = self._write_bundle(record, variant)
            if path is not None:
                self._note_captured(record, name, variant, path)
            else:
                self._control.take_back_shape(record)
        self._answer_wanted(record, variant)

    def _write_bundle(self, record: Record, variant: _Variant) -> Path | None:
        """None where the dispatch has to be captured again, with more pages."""
        data, loaded, ordinal = self._target.data, variant.loaded, variant.taken
        if self._search is None:
            return self._writer.write(record, data, loaded, ordinal)
        self._state.last_news = time.monotonic()
        return self._search.write(record, data, loaded, ordinal, variant.layout)

    def _note_captured(self, record: Record, name: str, variant: _Variant, path: Path) -> None:
        variant.taken += 1
        variant.refusals = 0
        captured = Captured(
            path=path,
            kernel=name,
            size_bytes=_size_of(path),
            pause_ms=record.pause_ns / 1e6,
            pid=self._target.process.pid,
            device=max(int(record.device), 0),
        )
        self._state.captured.append(captured)
        self._observer.captured(captured)

    def _note_refusal(self, record: Record, name: str, variant: _Variant | None) -> None:
        reason = bytes(record.reason).decode(errors="replace")
        if variant is not None:
            variant.refusals += 1
            if variant.refusals >= _MAX_REFUSALS:
                raise CaptureError(reason)
        self._refuse(name, reason)
        time.sleep(_RETRY_S)

    def _refuse(self, name: str, reason: str) -> None:
        if self._state.refused.get(name) != reason:
            self._state.refused[name] = reason
            self._observer.refused(name, reason)


def _size_of(path: Path) -> int:
    """Bytes of memory in a bundle."""
    with open_bundle(path) as bundle:
        return sum(region.size_bytes for region in bundle.manifest.regions)

"""Launches the dispatch of a bundle with a code object, and says what that cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from asmevo.capture.manifest import DispatchRecord
from asmevo.errors import ReplayError
from asmevo.replay.findings import Finding
from asmevo.replay.hip_runtime import EmulatorReport, EventTimer, HipRuntime, Kernel
from asmevo.replay.job import Event
from asmevo.replay.launch_plan import LaunchSetting
from asmevo.replay.records import Measurement

__all__ = ["Emit", "Launcher", "combine_measurements"]

Emit = Callable[..., None]

_SECOND_FILL = 0x3F8123A5
"""A number near 1 in f32, two finite ones in f16 and bf16: unlike the device's usual NaN."""


class Launcher:
    """Launches on one runtime; memory must have been restored."""

    def __init__(
        self,
        runtime: HipRuntime,
        dispatch: DispatchRecord,
        kernarg: bytes,
        emit: Emit,
        *,
        is_emulated: bool,
        argument_offsets: Sequence[int] = (),
    ) -> None:
        """Nothing is launched yet; a cooperative launch needs the places of the arguments."""
        self._argument_offsets = argument_offsets
        self._runtime, self._dispatch, self._kernarg = runtime, dispatch, kernarg
        self._emit = emit
        self.report = EmulatorReport(is_emulated=is_emulated)

    def launch(self, kernel: Kernel, setting: LaunchSetting) -> Measurement:
        """One launch, to its end.

        Raises:
            HipFailure: It failed.
        """
        if not self.report.is_available:
            return self._launch(kernel)
        with self.report.options(
            {setting.option: setting.value} if setting.option else {},
            fill=_SECOND_FILL if setting.second_state else 0,
        ):
            return self._launch(kernel)

    def time(self, kernel: Kernel) -> float:
        """One launch between two events, in milliseconds."""
        timer = EventTimer()
        self._emit(Event.LAUNCHING)
        timer.start()
        self._queue(kernel)
        time_ms = timer.stop_ms()
        self._runtime.synchronize()
        self._emit(Event.LAUNCHED)
        return time_ms

    def _queue(self, kernel: Kernel) -> None:
        dispatch = self._dispatch
        if dispatch.is_cooperative:
            kernel.launch_cooperative(
                grid=dispatch.grid,
                block=dispatch.block,
                dynamic_lds_bytes=dispatch.dynamic_lds_bytes,
                kernarg=self._kernarg,
                offsets=self._argument_offsets,
            )
            return
        kernel.launch(
            grid=dispatch.grid,
            block=dispatch.block,
            dynamic_lds_bytes=dispatch.dynamic_lds_bytes,
            kernarg=self._kernarg,
        )

    def _launch(self, kernel: Kernel) -> Measurement:
        if not self.report.is_available:
            return Measurement(measured_ms=(self.time(kernel),))
        self._emit(Event.LAUNCHING)
        self._queue(kernel)
        self._runtime.synchronize()
        self._emit(Event.LAUNCHED)
        report = self.report.read()
        if report.get("mfma") == "fast":
            raise ReplayError(
                "the emulated device ran matrix operations in its approximate mode",
                hint="a replay judges by exact results: unset ASMEVO_EMULATOR_MFMA",
            )
        return Measurement(
            modelled_cycles=report.get("modelled_cycles"),
            wave_instructions=report.get("wave_instructions"),
        )

    def findings(self) -> tuple[Finding, ...]:
        """What the emulated device's checks found in the last launch."""
        return self.report.findings()


def combine_measurements(measurements: Iterable[Measurement]) -> Measurement | None:
    """Modelled figures of the first launch, which is the usual one; the times of all."""
    listed = list(measurements)
    if not listed:
        return None
    return Measurement(
        modelled_cycles=listed[0].modelled_cycles,
        wave_instructions=listed[0].wave_instructions,
        measured_ms=tuple(time for item in listed for time in item.measured_ms),
    )

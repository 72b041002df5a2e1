"""Restore a bundle on a device, launch, compare: the differential oracle."""

from asmevo.replay.in_process import emulated_device

__all__ = ["emulated_device"]

"""CUDA tensors for a torch that was built for the CPU, in the emulated device's memory.

This package is read by the programs that run on the device, where asmevo itself and its
dependencies may be missing: it needs the standard library and torch only.
"""

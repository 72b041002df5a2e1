"""asmevo: capture, replay, optimize and swap compiled AMD Instinct kernels."""

__all__ = ["__version__"]

__version__ = "0.1.0"

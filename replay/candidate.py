"""What can be said of a code object before it runs: is it a candidate for this dispatch at all?"""

from __future__ import annotations

from asmevo.capture.bundle import Bundle
from asmevo.codeobject.code_object import CodeObject, require_arch
from asmevo.errors import CodeObjectError, ReplayError

__all__ = ["CandidateCheck"]


class CandidateCheck:
    """Holds what K0 has and a candidate must have."""

    def __init__(self, bundle: Bundle) -> None:
        """Read K0 from the bundle.

        Raises:
            ReplayError: The bundle's own code object does not fit its dispatch.
        """
        dispatch = bundle.manifest.dispatch
        symbols = (region.symbol for region in bundle.manifest.regions)
        self._globals = {symbol for symbol in symbols if symbol is not None}
        try:
            self.k0 = CodeObject.read(bundle.code_object())
            self.kernel = self.k0.kernel(dispatch.kernel)
        except CodeObjectError as error:
            raise ReplayError(f"{bundle.path}: its code object cannot be used: {error}") from error

    def find_fault(self, data: bytes) -> str | None:
        """Why the object cannot stand in for K0, None when it can."""
        try:
            candidate = CodeObject.read(data)
            require_arch(candidate, self.k0.target_id)
            kernel = candidate.kernel(self.kernel.name)
        except CodeObjectError as error:
            return str(error)
        known = {symbol.name for symbol in (*candidate.dynamic_symbols, *candidate.symbols)}
        if missing := sorted(self._globals - known):
            return f"module global {missing[0]} is missing"
        if kernel.kernarg_segment_size != self.kernel.kernarg_segment_size:
            return (
                f"kernel {kernel.name} takes {kernel.kernarg_segment_size} bytes of arguments, "
                f"K0 {self.kernel.kernarg_segment_size}"
            )
        return None

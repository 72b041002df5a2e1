"""What can be said of a code object before it runs: is it a candidate for this dispatch at all?"""

from __future__ import annotations

from asmevo.capture.bundle import Bundle
from asmevo.codeobject.code_object import CodeObject, Kernel, require_arch
from asmevo.errors import CodeObjectError, ReplayError
from asmevo.replay.elements import ElementType
from asmevo.replay.records import RegionFacts

__all__ = ["CandidateCheck", "describe_regions"]


class CandidateCheck:
    """Holds what K0 has and a candidate must have."""

    def __init__(self, bundle: Bundle) -> None:
        """Read K0 from the bundle.

        Raises:
            ReplayError: The bundle's own code object does not fit its dispatch.
        """
        dispatch = bundle.manifest.dispatch
        try:
            self._k0 = CodeObject.read(bundle.code_object())
            self.kernel = self._k0.kernel(dispatch.kernel)
        except CodeObjectError as error:
            raise ReplayError(f"{bundle.path}: its code object cannot be used: {error}") from error

    def find_fault(self, data: bytes) -> str | None:
        """Why the object cannot stand in for K0, None when it can."""
        try:
            candidate = CodeObject.read(data)
            require_arch(candidate, self._k0.target_id)
            kernel = candidate.kernel(self.kernel.name)
        except CodeObjectError as error:
            return str(error)
        if kernel.kernarg_segment_size != self.kernel.kernarg_segment_size:
            return (
                f"kernel {kernel.name} takes {kernel.kernarg_segment_size} bytes of arguments, "
                f"K0 {self.kernel.kernarg_segment_size}"
            )
        return None


def describe_regions(
    bundle: Bundle, kernel: Kernel, element_type: ElementType | None
) -> tuple[RegionFacts, ...]:
    """What a report says about each region: arguments that point to it, type of its elements."""
    names = {
        argument.offset: argument.name or f"#{index}"
        for index, argument in enumerate(kernel.arguments)
    }
    return tuple(
        RegionFacts(
            index=region.index,
            address=region.address,
            argument=", ".join(
                f"{names.get(offset, 'unnamed')} (kernarg +{offset})"
                for offset in (pointer.kernarg_offset for pointer in region.pointers)
            ),
            element_type=element_type or ElementType.B32,
        )
        for region in bundle.manifest.regions
    )

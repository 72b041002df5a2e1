"""Makes a bundle self-contained: contents in the chunk store come into the file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from asmevo.capture.bundle import Bundle, Moment, RegionContent, open_bundle, write_bundle
from asmevo.capture.manifest import Manifest, Region

__all__ = ["pack"]


def pack(source: Path, target: Path) -> Manifest:
    """Write the bundle at `source` to `target`, with everything inside.

    Raises:
        BundleError: The bundle is damaged, or chunks of it are missing.
    """
    with open_bundle(source) as bundle:
        manifest = bundle.manifest
        return write_bundle(
            target,
            dispatch=manifest.dispatch,
            capture=manifest.capture,
            code_object=bundle.code_object(),
            kernarg=bundle.kernarg(),
            regions=[_region(bundle, region) for region in manifest.regions],
        )


def _region(bundle: Bundle, region: Region) -> RegionContent:
    def read(moment: Moment) -> Iterable[bytes]:
        return bundle.region_chunks(region, moment)

    after = region.after
    return RegionContent(
        address=region.address,
        size_bytes=region.size_bytes,
        kind=region.kind,
        pointers=region.pointers,
        before=partial(read, Moment.BEFORE),
        after=None if after is None else partial(read, Moment.AFTER),
        coherence=region.coherence,
        symbol=region.symbol,
        allocation=region.allocation,
        memory_pointers=region.memory_pointers,
    )

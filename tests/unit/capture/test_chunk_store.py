"""Contents that bundles of a folder share."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_bundle import CODE_OBJECT, DISPATCH, FACTS, KERNARG

from asmevo.capture.bundle import Moment, RegionContent, open_bundle, write_bundle
from asmevo.capture.chunk_store import CHUNK_BYTES, ChunkStore
from asmevo.capture.manifest import Manifest, RegionKind, Storage
from asmevo.capture.pack import pack
from asmevo.errors import BundleError

WEIGHTS = random.Random(3).randbytes(3 * CHUNK_BYTES + 12345)
ADDRESS = 0x7F0000000000


def write(path: Path, address: int, content: bytes, store: ChunkStore | None) -> Manifest:
    def pieces() -> Iterator[bytes]:
        for at in range(0, len(content), 70000):
            yield content[at : at + 70000]

    region = RegionContent(
        address=address,
        size_bytes=len(content),
        kind=RegionKind.DEVICE,
        pointers=(),
        before=pieces,
        after=None,
    )
    return write_bundle(
        path,
        dispatch=DISPATCH,
        capture=FACTS,
        code_object=CODE_OBJECT,
        kernarg=KERNARG,
        regions=[region],
        store=store,
    )


def chunk_files(folder: Path) -> list[Path]:
    return sorted((folder / "chunks").rglob("*.zst"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two bundles: all of the weights, and a cut-out with another start and end."""
    store = ChunkStore(tmp_path)
    write(tmp_path / "a.aeb", ADDRESS, WEIGHTS, store)
    write(tmp_path / "b.aeb", ADDRESS + 4096, WEIGHTS[4096:-4096], store)
    return tmp_path


def test_identical_chunks_of_two_bundles_are_stored_once(folder: Path) -> None:
    assert len(chunk_files(folder)) == 4 + 2  # only first and last of the cut-out differ
    assert (folder / "a.aeb").stat().st_size < 10000
    for name, content in (("a", WEIGHTS), ("b", WEIGHTS[4096:-4096])):
        with open_bundle(folder / f"{name}.aeb") as bundle:
            bundle.verify()
            (region,) = bundle.manifest.regions
            assert region.before.storage is Storage.CHUNKS
            assert bundle.region_bytes(region, Moment.BEFORE) == content
    assert not list(folder.rglob("*.partial"))


def test_store_of_the_folder_above_is_found(folder: Path) -> None:
    (folder / "worker").mkdir()
    shutil.move(folder / "a.aeb", folder / "worker" / "a.aeb")

    with open_bundle(folder / "worker" / "a.aeb") as bundle:
        bundle.verify()


def test_small_content_stays_in_the_bundle(tmp_path: Path) -> None:
    write(tmp_path / "a.aeb", ADDRESS, b"x" * 5000, ChunkStore(tmp_path))

    assert not (tmp_path / "chunks").exists()


def test_missing_and_damaged_chunks_are_named(folder: Path) -> None:
    first, second, *_ = (path for path in chunk_files(folder))
    damaged = bytearray(first.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    problems = set()
    for path, content in ((first, bytes(damaged)), (second, None)):
        original = path.read_bytes()
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        for name in ("a.aeb", "b.aeb"):
            with open_bundle(folder / name) as bundle:
                try:
                    bundle.verify()
                except BundleError as error:
                    problems.add(str(error).split(": ")[1][:70])
                    assert path.stem in str(error)
        path.write_bytes(original)

    assert len(problems) == 2


def test_packed_bundle_needs_no_store(folder: Path, tmp_path: Path) -> None:
    packed = tmp_path / "elsewhere" / "deep" / "a.aeb"
    packed.parent.mkdir(parents=True)

    pack(folder / "a.aeb", packed)

    shutil.rmtree(folder / "chunks")
    with open_bundle(packed) as bundle:
        bundle.verify()
        (region,) = bundle.manifest.regions
        assert region.before.storage is Storage.INLINE
        assert bundle.region_bytes(region, Moment.BEFORE) == WEIGHTS
        assert (bundle.manifest.dispatch, bundle.manifest.capture) == (DISPATCH, FACTS)

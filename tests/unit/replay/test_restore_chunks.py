from __future__ import annotations

from itertools import pairwise

import pytest

from asmevo.replay.restore_chunks import read_chunks


@pytest.mark.parametrize("cuts", [[], [1, 2, 3], [8, 16], [5, 5, 17, 29]])
def test_chunks_of_any_cutting_join_to_the_content_at_one_size(cuts: list[int]) -> None:
    content = bytes(range(30))
    bounds = [0, *cuts, len(content)]
    pieces = [content[low:high] for low, high in pairwise(bounds)]

    chunks = list(read_chunks(pieces, size_bytes=8))

    assert b"".join(chunk.tobytes() for _, chunk in chunks) == content
    assert [chunk.size for _, chunk in chunks] == [8, 8, 8, 6]
    end = 0
    for offset, chunk in chunks:
        assert offset == end
        end += chunk.size

"""What a mutator hands in: edits of one listing, where, and what they should bring."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from asmevo.codeobject.listing import Listing

__all__ = ["Delete", "Edit", "InsertAfter", "Move", "Proposal", "Replace", "apply_edits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Put other instructions in the place of one."""

    id: int
    texts: tuple[str, ...]

    def apply(self, listing: Listing) -> Listing:
        """The edited listing."""
        return listing.replace(self.id, self.texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertAfter:
    """Put instructions behind one."""

    id: int
    texts: tuple[str, ...]

    def apply(self, listing: Listing) -> Listing:
        """The edited listing."""
        return listing.insert_after(self.id, self.texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove instructions."""

    ids: tuple[int, ...]

    def apply(self, listing: Listing) -> Listing:
        """The edited listing."""
        return listing.delete(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Put an instruction behind another one."""

    id: int
    after_id: int

    def apply(self, listing: Listing) -> Listing:
        """The edited listing."""
        return listing.move(self.id, self.after_id)


Edit = Replace | InsertAfter | Delete | Move


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One mechanism at one or more sites; ids are those of the listing it was made for."""

    mutator: str
    sites: tuple[int, ...]
    edits: tuple[Edit, ...]
    hypothesis: str


def apply_edits(listing: Listing, edits: Iterable[Edit]) -> Listing:
    """Apply edits one after the other; all ids are known before the first is applied."""
    for edit in edits:
        listing = edit.apply(listing)
    return listing

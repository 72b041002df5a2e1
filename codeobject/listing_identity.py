"""Listings as keys of caches."""

from __future__ import annotations

from asmevo.codeobject.listing import Listing

__all__ = ["Identity"]


class Identity:
    """A listing as a key of caches: equal only to itself, as comparing contents would cost more."""

    __slots__ = ("listing",)

    def __init__(self, listing: Listing) -> None:
        """Keep the listing alive, so that its identity stays its own."""
        self.listing = listing

    def __eq__(self, other: object) -> bool:
        """True for the same listing."""
        return isinstance(other, Identity) and self.listing is other.listing

    def __hash__(self) -> int:
        """By identity."""
        return id(self.listing)

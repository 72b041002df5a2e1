"""What the engine tells a worker, and the messages that a worker answers with.

The engine writes one line of JSON with the job, then one line for each candidate; the worker
answers each with a `result` message. `launching` and `launched` stand around every launch: the time
limit of a launch counts between them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from asmevo.replay.comparison import RegionFacts
from asmevo.replay.elements import ElementType
from asmevo.replay.options import OracleOptions

__all__ = ["EXIT_ADDRESS_TAKEN", "CandidateOrder", "Event", "Job"]

EXIT_ADDRESS_TAKEN = 75
"""Exit code of a worker in which a captured address is taken; it may be free in another one."""


class Event(StrEnum):
    """What a message of the worker says."""

    RESTORED = "restored"
    LAUNCHING = "launching"
    LAUNCHED = "launched"
    RESULT = "result"
    ADDRESS_TAKEN = "address_taken"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Which bundle a worker restores, and what it says about its regions."""

    bundle: str
    repeats: int
    options: OracleOptions
    facts: tuple[RegionFacts, ...]
    is_emulated: bool
    argument_offsets: tuple[int, ...] = ()
    """Places of the explicit arguments in the kernarg segment."""
    old_image: tuple[int, int] | None = None
    """Addresses from and to which K0 was loaded in the program; nothing may point there."""

    def to_line(self) -> str:
        """As a line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Self:
        """The inverse of `to_line`."""
        data: dict[str, Any] = json.loads(line)
        facts = tuple(
            RegionFacts(**{**item, "element_type": ElementType(item["element_type"])})
            for item in data.pop("facts")
        )
        options = OracleOptions.from_json(data.pop("options"))
        image = data.pop("old_image")
        old_image = None if image is None else (int(image[0]), int(image[1]))
        offsets = tuple(data.pop("argument_offsets"))
        return cls(
            **data, options=options, facts=facts, argument_offsets=offsets, old_image=old_image
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateOrder:
    """A code object to compare with K0."""

    path: str
    name: str
    sha256: str
    """Of the file when it was checked; a worker refuses one that has changed since."""
    changes_arithmetic: bool = False
    """Its edits do not claim that every float keeps its bits: judged within the tolerance."""

    def to_line(self) -> str:
        """As a line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Self:
        """The inverse of `to_line`."""
        return cls(**json.loads(line))

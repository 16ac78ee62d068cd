"""Now and new ids: the two things that tests must be able to hold still."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Protocol

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: nothing to misread in a prompt


class Clock(Protocol):
    """Tells the time and makes ids."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        ...

    def new_id(self, kind: str) -> str:
        """A new id that no other call returns, opened by `kind`."""
        ...


class SystemClock:
    """The machine's clock and 80 random bits an id."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def new_id(self, kind: str) -> str:
        bits = secrets.randbits(80)
        return f"{kind}_" + "".join(_ALPHABET[(bits >> shift) & 31] for shift in range(75, -1, -5))


def as_utc(moment: datetime) -> datetime:
    """The same moment in UTC; a naive one is taken as UTC already, as is one that UTC's calendar can't hold."""
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)

"""The one tree of errors.

SFAMSError
├── InvalidInput(ValueError)      the call was wrong; nothing was written
│   ├── InvalidScope
│   └── InvalidFilter
├── NotFound(LookupError)         no such memory, session or engine in this scope
├── MissingExtra(ImportError)     an optional dependency is not installed
├── StoreUnavailable              the database could not be read or written
└── ProviderFault                 an embedder or language model failed

Messages say what to do and never carry the text of a memory.
"""

from __future__ import annotations


class SFAMSError(Exception):
    """Anything this library raises on purpose."""


class InvalidInput(SFAMSError, ValueError):
    """An argument is outside what its verb accepts; nothing was written."""


class InvalidScope(InvalidInput):
    """A part of a scope is blank, too long or not storable."""


class InvalidFilter(InvalidInput):
    """A filter names a type, key or label that does not exist or cannot be bound."""


class NotFound(SFAMSError, LookupError):
    """What was named does not exist in this scope."""


class MissingExtra(SFAMSError, ImportError):
    """An optional dependency is missing; the message carries the install line."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(f"{package!r} is not installed. Run: pip install 'sf-ams[{extra}]'")
        self.extra = extra


class StoreUnavailable(SFAMSError):
    """The database could not be reached, locked or written; retry later."""


class ProviderFault(SFAMSError):
    """An embedder or language model raised, timed out or answered nonsense."""

"""Every error counton raises on purpose. Messages name the value, the bound and the remedy."""

from __future__ import annotations


class CountonError(Exception):
    """Base of all errors raised by counton."""


class MissingExtra(CountonError, ImportError):
    """An optional package is needed here and not installed; the message says how to install it."""


class InvalidInput(CountonError, ValueError):
    """An argument or a datum is outside what is allowed; nothing was released or changed."""


class HorizonExceeded(InvalidInput):
    """More steps were asked for than the strategy was built to serve."""


class SumOverflow(InvalidInput):
    """A running sum would leave the range in which arithmetic is exact."""


class NoiseAddressError(CountonError, OverflowError):
    """A node, coordinate or level lies outside the table of noise."""


class WrongKey(CountonError):
    """A key is missing, unreadable, badly protected, or not the one that belongs to a state."""


class StateError(CountonError):
    """A saved state is truncated, altered, of another format version, or of another stream."""


class ReplayMismatch(CountonError):
    """Input for a step that is already released differs from what was released."""


class StreamConflict(CountonError):
    """Another process has taken over the stream."""


class BudgetExceeded(CountonError):
    """A stream would spend more privacy than the ledger's limit leaves."""

"""What tests of a run share."""

from witnesses import one_key

__all__ = ["one_key"]

"""Streams that outlive their process: a database keeps their journal and their privacy ledger.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.state.database import state_file as state_file
    from counton.state.keys import key_path as key_path
    from counton.state.store import Store as Store
    from counton.state.store import state_summary as state_summary
    from counton.state.stream import Stream as Stream
    from counton.state.verification import Verification as Verification
    from counton.state.verification import verify as verify

__getattr__, __dir__, __all__ = attach(__name__, __file__)

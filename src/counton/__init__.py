"""counton: differential privacy under continual observation.

Private running totals you can count on: counts, sums and histograms released again and again
while data arrives, with noise that is exact, reproducible and planned for the least error.

>>> from counton import Counter, Key, PureDP
>>> from counton.strategies import KAry
>>> counter = Counter(KAry.best(8760), PureDP(epsilon=1.0), key=Key.generate(), name="visits")
>>> release = counter.release(3)
>>> release.step
1

Names are loaded when they are first used, so that ``import counton`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.base.errors import CountonError as CountonError
    from counton.continual import Counter as Counter
    from counton.noise import Key as Key
    from counton.planning.expiration_plans import plan_expiring as plan_expiring
    from counton.planning.ranges_plan import plan_cells as plan_cells
    from counton.privacy import ZCDP as ZCDP
    from counton.privacy import ApproxDP as ApproxDP
    from counton.privacy import ContributionBound as ContributionBound
    from counton.privacy import ExpiringDP as ExpiringDP
    from counton.privacy import ExpiringZCDP as ExpiringZCDP
    from counton.privacy import PureDP as PureDP
    from counton.run import Job as Job
    from counton.run import Release as Release
    from counton.run import read as read
    from counton.run import release as release
    from counton.state import Stream as Stream
    from counton.statistics import Average as Average
    from counton.statistics import Contingency as Contingency
    from counton.statistics import Count as Count
    from counton.statistics import Cuts as Cuts
    from counton.statistics import Degrees as Degrees
    from counton.statistics import Distinct as Distinct
    from counton.statistics import Edges as Edges
    from counton.statistics import Episodes as Episodes
    from counton.statistics import Forest as Forest
    from counton.statistics import Hierarchy as Hierarchy
    from counton.statistics import Moments as Moments
    from counton.statistics import Quantiles as Quantiles
    from counton.statistics import Ranges as Ranges
    from counton.statistics import RunningStatistic as RunningStatistic
    from counton.statistics import Stars as Stars
    from counton.statistics import Substrings as Substrings
    from counton.statistics import Sum as Sum
    from counton.statistics import TopK as TopK
    from counton.statistics import Triangles as Triangles
    from counton.statistics.plan_api import plan as plan
    from counton.strategies.workloads import Decayed as Decayed
    from counton.strategies.workloads import Rolling as Rolling
    from counton.strategies.workloads import Stack as Stack

    __version__: str

#: ``from counton import *`` takes the names in ``__all__``.
_load, __dir__, __all__ = attach(__name__, __file__)
# By name they can be asked for, and the error then names the missing extra.
if find_spec("polars") is None or find_spec("pydantic") is None:  # the extra "cli"
    _OF_ROWS = ("Job", "Release", "read", "release")
    __all__ = [name for name in __all__ if name not in _OF_ROWS]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("counton")
    if name == "training":  # a package of its own, so that `counton.training.plan` works
        return import_module("counton.training")
    return _load(name)

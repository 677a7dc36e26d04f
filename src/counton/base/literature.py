"""The sources of mechanisms, as references of a bibliography."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: Theorems about mechanisms of counton, by their names in ``proofs/Statements.v`` and in
#: docs/guarantees/verification.md.
THEOREMS: Final = (
    "a_floor_estimates",
    "a_rounded_quotient_estimates",
    "trees_estimate_from_below",
    "families_estimate_from_above",
)

#: Where the theorems stand: no wheel has them.
PLACE_OF_THEOREMS: Final = "(proofs/Statements.v of the source code)"

#: The hypothesis of `a_floor_estimates` that no theorem proves for a strategy.
TESTED_HYPOTHESIS: Final = "; that B C = A is tested, not proved"

#: References, by the names that strategies and statistics use.
REFERENCES: Final = {
    "calibration": (
        "C. Dwork, F. McSherry, K. Nissim and A. Smith, Calibrating noise to sensitivity in "
        "private data analysis, 2006"
    ),
    "binary": (
        "C. Dwork, M. Naor, T. Pitassi and G. N. Rothblum, Differential privacy under continual "
        "observation, 2010; T.-H. H. Chan, E. Shi and D. Song, Private and continual release of "
        "statistics, 2011"
    ),
    "honaker": "J. Honaker, Efficient use of differentially private binary trees, 2015",
    "elders": (
        "J. D. Andersson, R. Pagh, T. A. Steiner and S. Torkamani, Count on your elders: Laplace "
        "vs Gaussian noise, 2024"
    ),
    "smooth": (
        "J. D. Andersson and R. Pagh, A smooth binary mechanism for efficient private continual "
        "observation, 2023"
    ),
    "constants": (
        "H. Fichtenberger, M. Henzinger and J. Upadhyay, Constant matters: fine-grained error "
        "bound on differentially private continual observation using completely bounded norms, 2022"
    ),
    "normalised": (
        "M. Henzinger, N. P. Kalinin and J. Upadhyay, Normalized square root: sharper matrix "
        "factorization bounds for differentially private continual counting, 2025"
    ),
    "expiration": (
        "J. D. Andersson, M. Henzinger, R. Pagh, T. A. Steiner and J. Upadhyay, Continual counting "
        "with gradual privacy expiration, 2024"
    ),
    "ranges": (
        "P. Dharangutte, J. Gao, R. Gong and G. Wang, Differentially private range queries with "
        "correlated input perturbation, 2024"
    ),
    "consistency": (
        "M. Hay, V. Rastogi, G. Miklau and D. Suciu, Boosting the accuracy of differentially "
        "private histograms through consistency, 2010"
    ),
    "wavelets": (
        "X. Xiao, G. Wang and J. Gehrke, Differential privacy via wavelet transforms, 2011"
    ),
    "matrices": (
        "C. Li, G. Miklau, M. Hay, A. McGregor and V. Rastogi, The matrix mechanism: optimizing "
        "linear counting queries under differential privacy, 2015"
    ),
    "optimal": (
        "R. McKenna, G. Miklau, M. Hay and A. Machanavajjhala, Optimizing error of "
        "high-dimensional statistical queries under differential privacy, 2018"
    ),
    "fluctuating": "Andersson, Jain and Sivakumar, arXiv 2601.02257, 2026",
    "laplace": (
        "A. Ghosh, T. Roughgarden and M. Sundararajan, Universally utility-maximizing privacy "
        "mechanisms, 2009"
    ),
    "gaussian": (
        "C. Canonne, G. Kamath and T. Steinke, The discrete Gaussian for differential privacy, 2020"
    ),
    # Mechanisms that no paper describes: their theorems, or "own" if no theorem is checked by
    # machine.
    **{name: f"counton's own: theorem {name} {PLACE_OF_THEOREMS}" for name in THEOREMS},
    "own": "counton's own mechanism, whose proof of privacy stands in its documents",
}

#: Refereed venue and year of each reference.
VENUES: Final = {
    "calibration": "TCC 2006",
    "binary": "STOC 2010; ACM Transactions on Information and System Security 2011",
    "honaker": "as streams use it: Kairouz et al., ICML 2021",
    "elders": "FORC 2025",
    "smooth": "NeurIPS 2023",
    "constants": "ICML 2023",
    "normalised": "FORC 2026",
    "expiration": "NeurIPS 2024",
    "ranges": "AISTATS 2025",
    "consistency": "PVLDB 2010",
    "wavelets": "IEEE Transactions on Knowledge and Data Engineering 2011",
    "matrices": "The VLDB Journal 2015",
    "optimal": "PVLDB 2018",
    "laplace": "STOC 2009",
    "gaussian": "NeurIPS 2020",
}


def paper_of(sources: Iterable[str]) -> str | None:
    """Return references to the refereed papers that describe a mechanism; None if others do.

    >>> paper_of(["elders"])
    'J. D. Andersson, R. Pagh, T. A. Steiner and S. Torkamani, Count on your elders: Laplace vs
    Gaussian noise, 2024 (FORC 2025)'
    >>> paper_of(["matrices", "a_floor_estimates"]) is None
    True
    """
    named = tuple(sources)
    if not named or not all(name in VENUES for name in named):
        return None
    return "; ".join(f"{REFERENCES[name]} ({VENUES[name]})" for name in named)


def origin_of(sources: Iterable[str]) -> str:
    """Name the refereed papers that describe a mechanism, or else the theorems that prove it.

    >>> origin_of(["smooth"])
    'J. D. Andersson and R. Pagh, A smooth binary mechanism for efficient private continual
    observation, 2023 (NeurIPS 2023)'
    >>> origin_of(["matrices", "a_floor_estimates"])
    'ours: theorem a_floor_estimates (proofs/Statements.v of the source code); that B C = A is
    tested, not proved'
    >>> origin_of([])
    'its author names no paper'
    """
    named = tuple(sources)
    if (paper := paper_of(named)) is not None:
        return paper
    if not named:
        return "its author names no paper"
    *others, last = [name for name in named if name in THEOREMS] or [""]
    if last:
        words = f"theorems {', '.join(others)} and" if others else "theorem"
        origin = f"ours: {words} {last} {PLACE_OF_THEOREMS}"
        return origin + TESTED_HYPOTHESIS if "a_floor_estimates" in named else origin
    return "ours: its proof of privacy stands in the documents of counton"

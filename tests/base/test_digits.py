"""People read the digits that the error carries; files keep what was published."""

import polars as pl

from counton.base.columns import errors_of, readable

TABLE = pl.DataFrame(
    {
        "group": ["a", "b"], "estimate": [54011.4619140625, -0.2], "noise_std": [7.59465, 0.0213],
        "lower": [53996.5, -0.25], "upper": [54026.4, None],
    }
)  # fmt: skip
COLUMNS = TABLE.to_dict(as_series=False)
SEEN = [
    ["a", "b"], ["54,011.5", "−0.200"], ["7.6", "0.021"], ["53,996.5", "−0.250"], ["54,026.4", ""],
]  # fmt: skip


def test_a_screen_shows_the_digits_that_the_error_carries() -> None:
    assert readable(COLUMNS) == SEEN
    quantile: dict[str, list[float]] = {
        "quantile": [0.5], "estimate": [49.0245], "lower": [40], "upper": [50],
    }  # fmt: skip
    assert readable(quantile) == [["0.5"], ["49.0"], ["40"], ["50"]]
    assert errors_of({"window_index": [1], "rank": [2]}) == [None]

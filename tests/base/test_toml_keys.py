"""TOML that is not trusted: a key of very many parts is refused before it takes minutes."""

from pathlib import Path

import pytest

from counton.base.errors import InvalidInputError
from counton.base.outside_input import parse_toml
from counton.job.job_file import load
from counton.job.saved_job import save
from counton.run import Job

LONG_KEYS = [
    ".".join(["a"] * 50_000) + " = 1",
    "[" + ".".join(["a"] * 50_000) + "]",
    "[[" + " . ".join(["a"] * 50_000) + "]]",
    "a = {" + ".".join(["a"] * 50_000) + " = 1}",
    "\t.\t".join(['"a"'] * 50_000) + " = 1",
    ".".join(["'a#'"] * 50_000) + " = 1",
    'x = ["""a"""", {' + ".".join(["a"] * 50_000) + " = 1}]",
    'x = """\n#"""\n' + ".".join(["a"] * 50_000) + " = 1",
    "x = '\\'\n" + ".".join(["a"] * 50_000) + " = 1",
    ".".join(["a"] * 64) + " = 1",
]


@pytest.mark.parametrize("text", LONG_KEYS, ids=lambda text: text[:12])
def test_load_and_save_refuse_deeply_nested_key(tmp_path: Path, text: str) -> None:
    """Python's parser takes a time that grows with the square of the parts: minutes."""
    file = tmp_path / "nightly.toml"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match="nested too deep to be read"):
        load(file)
    job = Job("count", "e.csv", "v.db")
    with pytest.raises(InvalidInputError, match="nested too deep to be read"):
        save(job, file)


@pytest.mark.parametrize(
    "text",
    [
        "# " + ".".join(["a"] * 100),
        'note = "' + ".".join(["a"] * 100) + '"',
        "note = '" + ".".join(["a"] * 100) + "' # " + ".".join(["a"] * 100),
        'note = """\n' + ".".join(["a"] * 100) + '\\""" """',
        "note = [" + ", ".join(["1.5"] * 100) + "]",
        ".".join(["a"] * 63) + " = 1",
    ],
    ids=lambda text: text[:12],
)
def test_text_with_many_dots_is_no_key(text: str) -> None:
    assert isinstance(parse_toml(text.encode()), dict)

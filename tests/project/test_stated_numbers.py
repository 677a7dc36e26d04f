"""Every number in the text of a page is computed by a test, shown by a block, or an input.

A page's blocks of code are compared with what they print (`test_documents.py`). A number elsewhere
on a page must belong to one of these classes:

- *computed*: it lies in a sentence that another test writes out, with numbers that it computes.
  These sentences are taken from the texts of the tests that read pages;
- *shown*: a block or a piece of code of the same page has it, as an option or as output;
- *input*: `INPUTS` recognises it as a date, version, section, size or privacy parameter. A whole
  number of one digit, without a unit or a margin, counts things of its sentence;
- *compared*: it lies in a part that a test compares as a whole, which `COMPARED` names;
- *example*: `EXAMPLES` quotes its sentence, and says why the number needs no test.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
NUMBER = re.compile(r"(?<![\w#.])\d(?:[\d,]*\d)?(?:\.\d+)?|(?<![\w.])\.\d+")
FLAGS = re.MULTILINE | re.DOTALL
#: What follows a whole number of one digit that is measured, not counted.
UNIT = re.compile(r"\d ?(?:%|per cent|times|seconds?|minutes?|[MG]B|ms|µs|ns|s\b)")
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
PLACES = (
    "Theorem|Lemma|Corollary|Corollaries|Proposition|Section|Figure|Table|Algorithm|Definition|"
    "Appendix|Equation|Remark|Claim|section|appendix|lines?|steps?|codes?|arXiv|RFC|SP|ISO|Python"
)
SIZES = (
    "steps?|windows?|cells|epochs|bits|bytes|hexadecimal digits|characters|buffers|bands|intervals"
)
#: How a number of a text is known to be an input of its sentence.
INPUTS = {
    "day": r"\b\d{4}-\d\d-\d\d|\b(?:19|20)\d\d\b|\b\d\d:\d\d\b",
    "month": rf"\b(?:\d+ )?(?:{MONTHS})(?: \d{{4}})?\b",
    "version": r"\b\d+\.\d+\.(?:\d+|x)\b|\b3\.1[1-9]\b|\bjax_privacy 2\.2\b|\b(?:Java|commit) \d+",
    "name": r"\b(?:SHA|AES|UTF|Apache|HKDF-SHA)-?\d[\d.]*|\b800-\d+|\b2\d{3}\.\d{5}\b",
    "place": rf"\b(?:{PLACES}) [\d.]+(?:(?:, | and | or | to |–)[\d.]+)*",
    "parameter": r"[εδρkTW] ?[=≤<>≥] ?[\d.½⁻e-]+(?:/\d+)?(?:(?:, | and | or | to )[\d.]+)*",
    "pair of parameters": r"\([\d.]+, ?(?:10⁻\S|1e-\d+|0\.\d+)\)",
    "power": r"\b\d+\^\S+|\b10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+",
    "confidence": r"\b9[05]%|\b0\.95\b|\b95 of 100\b",
    "title, or number of a list": r"^#+ .*$|^ *\d+\. ",
    "mode of a file": r"\b0[046]{2}0\b",
    "answer of a service": r"\b(?:20[02]|40[0-9]|41[0-5]|422|503)\b(?! \w*s\b)",
    "size": rf"\b[\d,]+(?: (?:or|to|and) [\d,]+)?\s+(?:\w+ )?(?:{SIZES})\b",
    "unit of several": r"\b(?:user|unit) with [\d,]+|\b[\d,]+ ?(?:times |× )?[ερ]",
    "last days": r"\blast 7 or 28 days\b",
}
RESEARCH = "tests/project/test_numbers_of_research.py"
#: The parts of pages that a test compares as a whole: a page, the first words of the part, which
#: ends with the next empty line, and the test. Several tables may begin with the same words. Of the
#: table of optimisers, the test computes the columns of 96 steps. Numbers of other libraries are
#: those of their programs, some of which `test_beside.py` runs.
COMPARED = {
    ("README.md", "| mechanism |"): "tests/papers/test_survey.py",
    ("docs/concepts/choosing-epsilon.md", "| ε |"): "tests/project/test_epsilon_table.py",
    ("docs/guides/training.md", "| Sampler and noise |"): "tests/project/test_numbers_on_pages.py",
    ("docs/guides/training.md", "| Noise | Error |"): "tests/papers/test_training_tables.py",
    ("docs/guides/training.md", "| Optimiser |"): "tests/papers/test_training_tables.py",
    ("docs/reference/errata.md", "| Where |"): "tests/papers/test_errata_page.py",
    (
        "docs/reference/strategies.md",
        "| strategy | error",
    ): "tests/continual/test_ranges.py",
    ("docs/research/accuracy.md", "| mechanism |"): "tests/papers/test_survey.py",
    ("docs/research/accuracy.md", "| sum |"): "tests/papers/test_table_of_recent_sums.py",
    ("docs/research/accuracy.md", "| T |"): "tests/papers/test_survey.py",
    ("docs/research/comparison.md", "| Work |"): RESEARCH,
    ("docs/research/comparison.md", "| Task |"): "tests/project/test_beside.py",
    ("docs/research/theory.md", "| steps |"): RESEARCH,
}
EXAMPLE = "a made-up example, to read"
FORMAT = "a formula or a format, which the page defines"
NAME = "an option, a version or a setting of a measurement"
PRINTED = "a number that another publication or program prints"
WORDS = "part of an expression, no measurement"
#: Sentences with numbers that need no test: by page, words around the number, and why.
EXAMPLES = {
    ("docs/concepts/accuracy.md", "an estimate of 63 has the interval 60 to 66"): EXAMPLE,
    ("docs/concepts/choosing-epsilon.md", "for 20 visitors and very little for 20,000"): EXAMPLE,
    ("docs/concepts/choosing-epsilon.md", "±0 means"): WORDS,
    ("docs/concepts/choosing-epsilon.md", "30 page views of a day"): PRINTED,
    ("docs/concepts/how-it-works.md", "62 visitors, and that a colleague knows 61"): EXAMPLE,
    ("docs/concepts/how-it-works.md", "was 61 yesterday and is 62 today"): EXAMPLE,
    ("docs/concepts/how-it-works.md", "62 may be shown as 60 or 65"): EXAMPLE,
    ("docs/concepts/privacy-units.md", "leaves 100 traces"): EXAMPLE,
    ("docs/concepts/privacy-units.md", "the limit is 20 events per month"): EXAMPLE,
    ("docs/concepts/privacy-units.md", "31 events per month and one per day"): EXAMPLE,
    ("docs/getting-started/ten-minutes.md", "means 1204"): EXAMPLE,
    ("docs/guarantees/compatibility.md", "Before 1.0"): NAME,
    ("docs/guarantees/compatibility.md", "From 1.0 on"): NAME,
    ("docs/guarantees/compatibility.md", "| 0.3.0.dev0 | 20, 21 |"): NAME,
    ("docs/guarantees/compatibility.md", "| 0.2.0 | 16 |"): NAME,
    ("docs/guarantees/compatibility.md", "| 17, 18, 19 |"): NAME,
    ("docs/guarantees/compatibility.md", "| 15 and lower |"): NAME,
    ("docs/guarantees/specification.md", 'decimals ("0.05")'): FORMAT,
    (
        "docs/guarantees/specification.md",
        "| 8 .. 11 | 12 | 13 | 14 | 15 |",
    ): FORMAT,
    ("docs/guarantees/specification.md", "b ≤ 24 · 2^n"): FORMAT,
    ("docs/guarantees/verification.md", "`tests/noise/test_samplers.py`: 100 digits"): WORDS,
    ("docs/guides/corrections.md", "had 1,368 rows too many"): EXAMPLE,
    ("docs/guides/fill-in-a-job-file.md", "means 1204"): EXAMPLE,
    ("docs/guides/input.md", "`2.592` is 2592"): EXAMPLE,
    ("docs/guides/input.md", "seven times 24 hours"): WORDS,
    ("docs/papers/constants.md", "`distance` (0.01)"): NAME,
    ("docs/papers/constants.md", "There are 1,024 runs here"): NAME,
    ("docs/papers/smooth.md", "Here T goes to 1,823"): NAME,
    ("docs/reference/errata.md", "The best arity is not 19"): PRINTED,
    ("docs/reference/exit-codes.md", "| 10 | an alarm"): NAME,
    ("docs/reference/glossary.md", '"36 to 38" is 36, 37 or 38'): EXAMPLE,
    ("docs/reference/glossary.md", "1 hides much, 10 very little"): WORDS,
    ("docs/reference/http-api.md", "`counton_lag_seconds` above 300"): NAME,
    ("docs/reference/notation.md", "√(24 D − 24); √(24 D − 16)"): FORMAT,
    ("docs/research/accuracy.md", "it has 17.335 (mean) and 20.148 (largest)"): PRINTED,
    ("docs/research/accuracy.md", "4.235 and 4.797 with Gaussian noise"): PRINTED,
    ("docs/research/comparison.md", "2.2 (commit"): NAME,
    ("docs/research/comparison.md", "by day and 100 pages"): NAME,
    ("docs/research/mechanisms.md", "epochs of 16, 256, 4,096 ... steps"): FORMAT,
    ("docs/research/privacy-expiration.md", "With growth above 1.5"): FORMAT,
    ("docs/research/theory.md", "takes 10/16 of it, and 3/16 of each"): FORMAT,
    ("docs/research/theory.md", "nodes of 1, 16, ..., 16^j steps"): FORMAT,
    ("docs/research/theory.md", "1 - (1 - δ)^1000"): EXAMPLE,
    ("docs/statistics/counts-and-sums.md", "has 100 times the privacy loss"): EXAMPLE,
    ("docs/statistics/index.md", "came 1, 5 or 20 times"): EXAMPLE,
    ("docs/statistics/quantiles.md", "quantiles 0.1, 0.25, 0.5, 0.75 and 0.9"): NAME,
    ("docs/statistics/ranges.md", "the cells from 60 to 299"): EXAMPLE,
    ("docs/statistics/top-k.md", "number of groups to show (default 10)"): NAME,
}


def blanked(text: str, pattern: str, flags: int = 0) -> str:
    """Return a text in which matches are spaces, so that places and lines stay the same."""
    return re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=flags)


def prose(page: str) -> str:
    """Return a page whose blocks, code, addresses and generated parts are spaces."""
    text = blanked(page, r"^ *```.*?^ *```", FLAGS)
    text = blanked(text, r"<!-- (?:begin: )?written by .*?(?:<!-- end.*?-->|\Z)", re.DOTALL)
    text = blanked(text, r"<!--.*?-->|<(script|form)\b.*?</\1>", re.DOTALL)
    text = blanked(text, r"`[^`\n]*`|\]\([^)\n]*\)|<[^>\n]*>")
    return blanked(text, r"\[[^\]\n]*\]: .*")


def as_one_line(page: str) -> tuple[str, list[int]]:
    """Return a page with single spaces, and the place on the page of each character."""
    words = [(match[0], match.start()) for match in re.finditer(r"\S+", page)]
    places = [start + offset for word, start in words for offset in range(len(word) + 1)]
    return "".join(f"{word} " for word, _ in words), places


def texts_of(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a program. A zero byte stands for each value that is put into a text."""
    parts_of_texts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts_of_texts |= {id(part) for part in ast.walk(node) if part is not node}
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values
            )
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in parts_of_texts:
            continue
        if isinstance(node.value, str):
            yield re.sub(r"\{[^{}]*\}", "\0", node.value)


@cache
def computed_sentences() -> tuple[str, ...]:
    """Return the sentences that tests of pages compute, with a zero byte for each number."""
    patterns = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        program = path.read_text("utf-8")
        reads_pages = "read_text" in program and re.search(r"docs|README", program)
        if path == Path(__file__) or not reads_pages:
            continue
        for text in texts_of(ast.parse(program)):
            sentence = " ".join(text.split())
            n_letters = sum(letter.isalpha() for letter in sentence)
            if n_letters >= 8 and re.search(r"[\d\0]", sentence):
                patterns.append(sentence)
    return tuple(patterns)


def patterns_of(line: str) -> Iterator[str]:
    """Yield the patterns of the sentences that tests compute, if a page may have them."""
    for sentence in computed_sentences():
        if max(sentence.split("\0"), key=len) in line:
            yield re.escape(sentence).replace("\0", ".{1,60}?")


def places_of(patterns: Iterable[str], text: str) -> set[int]:
    """Return the places of a text that lie in a match of a pattern."""
    compiled = [re.compile(each, re.MULTILINE) for each in patterns]
    matches = (match for pattern in compiled for match in pattern.finditer(text))
    return {place for match in matches for place in range(*match.span())}


def parts_compared(name: str, page: str) -> set[int]:
    """Return the places of a page that tests compare as a whole."""
    found = set()
    for named, first in COMPARED:
        if named == name:
            for match in re.finditer(rf"^{re.escape(first)}.*?(?=\n\n|\Z)", page, FLAGS):
                found |= set(range(*match.span()))
    return found


def unclassed(
    name: str, page: str, examples: Collection[tuple[str, str]] = tuple(EXAMPLES)
) -> list[str]:
    """Return the lines of a page with numbers of no class, and these numbers.

    Args:
        name: The path of the page in the repository.
        page: Its text.
        examples: The pages and words of sentences that need no test.
    """
    text = prose(page)
    blocks = re.findall(r"^ *```.*?^ *```|`[^`\n]*`", page, FLAGS)
    shown = {number.replace(",", "") for block in blocks for number in NUMBER.findall(block)}
    line, places = as_one_line(page)
    computed = {places[place] for place in places_of(patterns_of(line), line)}
    quoted = [re.escape(words) for named, words in examples if named == name]
    computed |= {places[place] for place in places_of(quoted, line)}
    computed |= parts_compared(name, page) | places_of(INPUTS.values(), text)
    lines: dict[int, list[str]] = {}
    for match in NUMBER.finditer(text):
        is_digit = len(match[0]) == 1 and not UNIT.match(text, match.start())
        is_counted = is_digit and text[match.start() - 1] != "±"
        if match.start() in computed or match[0].replace(",", "") in shown or is_counted:
            continue
        lines.setdefault(text.count("\n", 0, match.start()), []).append(match[0])
    texts = page.splitlines()
    return [f"{name}:{number + 1}: {found}: {texts[number]}" for number, found in lines.items()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_number_of_a_page_has_a_class(page: Path) -> None:
    assert unclassed(str(page.relative_to(ROOT)), page.read_text("utf-8")) == []


@pytest.mark.parametrize(("name", "first"), COMPARED)
def test_compared_part_is_on_its_page_and_its_test_exists(name: str, first: str) -> None:
    assert parts_compared(name, (ROOT / name).read_text("utf-8"))
    assert f"\n{first}" in (ROOT / name).read_text("utf-8")
    assert (ROOT / COMPARED[name, first]).exists()


@pytest.mark.parametrize(("name", "words"), EXAMPLES)
def test_example_is_still_on_its_page_and_needs_its_entry(name: str, words: str) -> None:
    page = (ROOT / name).read_text("utf-8")
    assert words in " ".join(page.split())
    without = dict(EXAMPLES)
    del without[name, words]
    assert unclassed(name, page, without) != []


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        ("The margin is 47.", ["47"]),
        ("The margin is ±4.", ["4"]),
        ("It takes 3 seconds.", ["3"]),
        ("It is 12.5% lower than 1,234.", ["12.5", "1,234"]),
        ("Since 3 March 2024, with ε = 0.5, over 52 rows.", ["52"]),
        ("It is 1.8.\n\n```console\n$ echo\n1.80 1.8\n```\n", []),
        ("Of the 2 totals after 365 steps, `48` is shown.", []),
    ],
)
def test_number_of_no_class_is_reported(sentence: str, numbers: list[str]) -> None:
    reported = unclassed("page.md", f"{sentence}\n")
    assert reported == ([f"page.md:1: {numbers}: {sentence}"] if numbers else [])


def test_changed_number_of_a_computed_sentence_is_reported() -> None:
    """The sentence that a test computes is followed by another one here."""
    page = (ROOT / "docs" / "guides" / "plan.md").read_text("utf-8")
    assert unclassed("docs/guides/plan.md", f"{page}\nThe margin grows to 77.7 counts.\n") != []

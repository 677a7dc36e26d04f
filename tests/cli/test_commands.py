import json
import re
from pathlib import Path

import click
import polars as pl
import pytest

from counton.base import errors
from counton.cli.app import app
from counton.cli.command_list import COMMANDS
from counton.cli.exits import ExitCode, exit_code

from .conftest import Workplace

YEAR_OF_HOURS = ("plan", "--windows", "8760", "--epsilon", "1")


def test_plan_ranks_strategies_by_error(place: Workplace) -> None:
    choices = json.loads(place(*YEAR_OF_HOURS, "--json").out)["choices"]
    assert [row["rank"] for row in choices] == list(range(1, len(choices) + 1))
    errors = [row["mean_std"] for row in choices]
    assert errors == sorted(errors)
    assert choices[0]["strategy"].startswith("Solved")


def test_plan_states_factors_to_lower_bounds(place: Workplace) -> None:
    matrix, anything = json.loads(place(*YEAR_OF_HOURS, "--json").out)["factors"]
    assert matrix["holds_for"] == "matrix mechanisms with Laplace noise"
    assert anything["holds_for"] == "any mechanism"
    assert 2.7 < matrix["factor"] <= anything["factor"] < 2.8
    assert anything["factor"] == anything["achieved"] / anything["at_least"]
    table = place(*YEAR_OF_HOURS, "--full").out
    assert all(factor["source"] in table for factor in (matrix, anything))


def test_plan_prints_margins_of_error_and_noise(place: Workplace) -> None:
    brief = place(*YEAR_OF_HOURS).out
    margins = "a total has a margin of error of 14 in window 1 and 30 in window 8,760"
    assert brief.startswith(f"epsilon = 1: {margins}")
    assert "Noise standard deviation: 13.39 (root mean square over all windows), " in brief


def test_full_plan_prints_parameters_of_published_strategies(place: Workplace) -> None:
    table = " ".join(place(*YEAR_OF_HOURS, "--full").out.split())
    assert "8,760 windows, pure differential privacy with epsilon = 1" in table
    assert "smooth binary, even height (height 16, zeros 8)" in table


@pytest.mark.parametrize("more", [["--delta", "1e-9"], ["--metric", "max"]])
def test_plan_takes_guarantees_and_metrics(more: list[str], place: Workplace) -> None:
    done = place("plan", "--windows", "100", "--epsilon", "1", *more, "--json").fine()
    column = "max_std" if "max" in more else "mean_std"
    errors = [row[column] for row in json.loads(done.out)["choices"]]
    assert errors == sorted(errors)


def test_plan_without_a_last_step_and_its_picture(place: Workplace) -> None:
    asked = ("plan", "--expected-windows", "200", "--rho", "0.5")
    found = json.loads(place(*asked, "--json").out)
    assert (found["windows"], found["expected_windows"]) == (None, 200)
    assert found["choices"][0]["strategy"].startswith("GrowingSquareRoot")
    assert [factor["holds_for"] for factor in found["factors"]][1] == "any mechanism"
    done = place(*asked, "--chart", str(place.folder / "errors.png"))
    assert "no last window, errors of the first 200 windows" in done.out
    assert "errors.png" in done.out
    assert (place.folder / "errors.png").read_bytes().startswith(b"\x89PNG")


def test_plan_ranks_also_where_no_noise_is_left(place: Workplace) -> None:
    done = place("plan", "--windows", "2", "--epsilon", "1000", "--json")
    assert json.loads(done.out)["choices"][0]["mean_std"] == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--windows", "0", "--epsilon", "1"], "horizon is 0"),
        (["--windows", "10"], "the privacy loss is missing"),
        (["--windows", "ten", "--epsilon", "1"], "'ten' is not a whole number"),
        (["--epsilon", "1"], "--windows is missing"),
        (
            ["--windows", "9", "--epsilon", "1", "--expected-windows", "9"],
            "--expected-windows 9 cannot be used with --windows 9",
        ),
        (["--windows", "9", "--epsilon", "1", "--chart", "x.csv"], "x.csv"),
        (
            ["--windows", "9", "--epsilon", "1", "--strategy", "smoth"],
            "--strategy smoth is not known",
        ),
    ],
)
def test_plan_refuses_bad_input(more: list[str], words: str, place: Workplace) -> None:
    said = place("plan", *more).refused()
    assert words in said


def test_sums_are_clipped_and_put_on_the_grid(place: Workplace) -> None:
    rows = ["00:10,a,1.24", "00:20,a,99", "00:30,b,-3", "01:10,b,0.3", "02:00,a,1"]
    out = place.folder / "out.parquet"
    done = place(
        *(
            "release",
            "sum",
            place.write("e.csv", rows, "time,group,value"),
            *place.new(epsilon="1000"),
        ),
        *("--value", "value", "--lower", "0", "--upper", "10", "--resolution", "0.5"),
        *("--append", "--output", str(out)),
    ).fine()
    table = pl.read_parquet(out)
    assert table["estimate"].to_list() == [11.0, 0.0, 11.0, 0.5]
    assert "Sum of value, by group, values from 0 to 10, cumulative" in done.out
    late = place.write("late.csv", ["00:15,b,2.0", "03:00,a,1"], "time,group,value")
    place("release", "sum", late, *place.again, "--append", "--output", str(out)).fine()
    assert pl.read_parquet(out)["estimate"].to_list()[4:] == [12.0, 2.5]


def test_every_kind_of_error_has_its_code() -> None:
    expected = {
        errors.InvalidInputError: ExitCode.INVALID_INPUT,
        errors.MissingOptionError: ExitCode.INVALID_INPUT,
        errors.HorizonExceededError: ExitCode.INVALID_INPUT,
        errors.SumOverflowError: ExitCode.INVALID_INPUT,
        errors.NoiseAddressError: ExitCode.INVALID_INPUT,
        errors.StateError: ExitCode.CORRUPT_STATE,
        errors.StateRolledBackError: ExitCode.STATE_ROLLED_BACK,
        errors.StateUnavailableError: ExitCode.UNAVAILABLE,
        errors.StreamMismatchError: ExitCode.INVALID_INPUT,
        errors.StreamClosedError: ExitCode.INVALID_INPUT,
        errors.InputChangedError: ExitCode.INPUT_CHANGED,
        errors.ConcurrentWriterError: ExitCode.CONCURRENT_WRITER,
        errors.NoiseKeyError: ExitCode.NOISE_KEY,
        errors.BudgetExceededError: ExitCode.BUDGET_EXCEEDED,
        errors.MissingDependencyError: ExitCode.ERROR,
        OSError: ExitCode.ERROR,
    }
    for kind, code in expected.items():
        assert exit_code(kind("x")) is code
    assert set(ExitCode) - set(expected.values()) == {ExitCode.OK, ExitCode.BUDGET_WARNING}
    defined = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, Warning)
    }
    assert defined - set(expected) == {errors.CountonError}


def test_every_command_has_help_and_a_line_in_the_documents(place: Workplace) -> None:
    commands = {*COMMANDS}
    listed = re.findall(r"^  ([a-z][a-z-]*)  +\w", place("--help").out, re.MULTILINE)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text(
        encoding="utf-8"
    )
    documented = re.findall(r"^\| \[`([a-z-]+)`\]\(commands/\1\.md\) \|", page, re.MULTILINE)
    assert set(listed) == set(documented) == commands
    for command in commands:
        done = place(command, "--help")
        assert (done.code, f"counton {command}" in done.out) == (0, True)


def test_summaries_in_the_list_are_those_of_the_commands() -> None:
    context = click.Context(app)
    for name, listed in COMMANDS.items():
        command = app.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str(200) == listed.summary


def test_version(place: Workplace) -> None:
    assert re.fullmatch(r"counton \d+\.\d+.*\n", place("--version").out)

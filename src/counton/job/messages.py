"""One sentence for each refusal: what is wrong, as ``name=value``, then what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counton.base.errors import CountonError, InvalidInputError, is_one, param
from counton.job.model_registry import REGISTRY

if TYPE_CHECKING:
    from pydantic import ValidationError

    from counton.job.option_fields import Section

#: Ends of sentences by the kind of pydantic's error. Other kinds do not occur: the types of
#: `counton.job.values` say themselves what is wrong.
_SENTENCES = {
    "bool_type": "is neither true nor false; write one of them without quotes",
    "greater_than_equal": "is below {ge}; give at least {ge}",
    "less_than_equal": "is above {le:,}; give at most {le:,}",
}


class RefusedValueError(InvalidInputError):
    """An option has a value that is not allowed; all names of options are known."""


def parse_options(
    model: type[Section], options: Mapping[str, object], folder: Path | None = None
) -> Any:
    """Return options as a model; a refusal is an `InvalidInputError` of one sentence.

    Args:
        folder: folder of the job file that states them, to which paths are relative; the keys of
            a job file have hyphens.

    Raises:
        RefusedValueError: a value is not allowed, and nothing else is wrong.
        InvalidInputError: an option is unknown or missing.

    >>> from counton.job.statistics.count import CountJob
    >>> parse_options(CountJob, {"events": "visits.csv", "window": 30})
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: count has no option 'window'; did you mean windows?
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(
            dict(options), context={"folder": folder}, by_name=folder is None, by_alias=True
        )
    except ValidationError as error:
        kinds = {problem["type"] for problem in error.errors(include_url=False)}
        is_of_value = not kinds & {"extra_forbidden", "missing"}
        refusal = RefusedValueError if is_of_value else InvalidInputError
        raise refusal(explain_error(error, model)) from None


def explain_error(error: ValidationError, model: type[Section]) -> str:
    """Return the first error of a model as a sentence; unknown options come first."""
    errors = error.errors(include_url=False)
    unknown = [problem for problem in errors if problem["type"] == "extra_forbidden"]
    first = (unknown or errors)[0]
    key = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return explain_unknown_option(key, model)
    name = _name_of(key, model)
    value = first["input"]
    context = first.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, CountonError):
        return cause.template
    if choices_of(model, name):
        return _wrong_choice(name, value, model)
    if first["type"] == "missing":
        return f"{param(name)} is missing; give it"
    end = str(cause) if cause is not None else _SENTENCES[first["type"]].format(**context)
    return f"{show_option(name, value)} {end}"


def show_option(name: str, value: object) -> str:
    """Return an option with its value, as a message shows them; a text that is no word is quoted.

    >>> from fractions import Fraction
    >>> from counton.base.errors import InvalidInputError
    >>> print(InvalidInputError(show_option("delta", Fraction(1, 10**6))))
    delta=1e-6
    >>> print(InvalidInputError(show_option("every", "1 day")))
    every='1 day'
    """
    if isinstance(value, Fraction):
        from counton.base.exact import text

        value = text(value)
    if isinstance(value, tuple) and all(isinstance(part, str) for part in value):
        value = ",".join(value)
    if isinstance(value, str) and not (value and value.isprintable() and " " not in value):
        value = repr(value[:80])
    return param(name, value if is_one(value) else None)


def explain_unknown_option(key: str, model: type[Section]) -> str:
    """Return the message about an option that a statistic does not have."""
    keys = keys_of(model)
    if key == "value" and "count_column" in keys:  # both name the column that is added up
        return f"{_called(model)} has no option 'value'; did you mean count-column?"
    others = [name for name, other in REGISTRY.all_models().items() if key in keys_of(other)]
    message = f"{_called(model)} has no option {key!r}"
    if key in keys:  # which is its name in Python
        return f"{message}; did you mean {model.model_fields[key].alias}?"
    if others:
        statistics = ", ".join(others) if len(others) <= 3 else "other statistics"
        return f"{message}, which is for {statistics}; leave it out"
    near = nearest(key, keys)
    remedy = f"did you mean {near}?" if near else "leave it out"
    return f"{message}; {remedy}"


def keys_of(model: type[Section]) -> dict[str, str]:
    """Return the names of options by every name that they have: in Python, and in files."""
    fields = model.model_fields
    names_by_alias = {str(item.alias): name for name, item in fields.items()}
    return {name: name for name in fields} | names_by_alias


def nearest(key: str, keys: Iterable[str]) -> str | None:
    """Return the nearest known name; of a short one, a wrong letter is a larger part."""
    near = get_close_matches(key, keys, 1, 0.72 if len(key) > 3 else 0.6)
    return near[0] if near and near[0] != key else None


def _name_of(key: str, model: type[Section]) -> str:
    return keys_of(model).get(key, key)


def _wrong_choice(name: str, value: object, model: type[Section]) -> str:
    choices = choices_of(model, name)
    near = nearest(str(value), choices)
    remedy = f"did you mean {near}?" if near else f"give {', '.join(choices[:-1])} or {choices[-1]}"
    return f"{show_option(name, value)} is not possible for {_called(model)}; {remedy}"


def _called(model: type[Section]) -> str:
    """Return what messages call a model: its statistic, or the table of a job file."""
    statistic = model.model_fields.get("statistic")
    return model.heading if statistic is None else str(statistic.default)


def choices_of(model: type[Section], name: str) -> tuple[str, ...]:
    """Return the words that an option may be; none if any text is possible."""
    from typing import Literal, get_args, get_origin

    annotation = model.model_fields[name].annotation
    for part in (annotation, *get_args(annotation)):
        if get_origin(part) is Literal:
            return get_args(part)
    return ()

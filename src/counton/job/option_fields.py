"""The description of one option: a field of a model, with its help, its scope and its marks."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, cast, dataclass_transform

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo


class OptionScope(Enum):
    """How long an option holds."""

    STREAM = "it defines the stream: a later job may leave it out, and may not contradict it"
    REMEMBERED = "a later job may change it; a later job that leaves it out has the last value"
    OUTPUT = "like REMEMBERED, but a job that states any output states all of them"
    EACH_RUN = "it holds for one run"


class OptionMark(Enum):
    """A mark of an option, in addition to its scope."""

    OFTEN = "the short help shows it"
    FILE_ONLY = "job files and Python have it, commands do not"
    RUN_ONLY = "a service has no such option, because it decides this itself"
    ALL_JOBS = "`counton run` may state it for all jobs of a file"


STREAM, REMEMBERED, OUTPUT, EACH_RUN = OptionScope
OFTEN, FILE_ONLY, RUN_ONLY, ALL_JOBS = OptionMark
_MARKS = "x-counton"


def option(
    help: str,
    *marks: OptionScope | OptionMark,
    default: object = None,
    key: str | None = None,
) -> Any:
    """Define a field of a model that is an option.

    Args:
        help: one line that says what the option means.
        marks: its marks, and its scope if that is not the scope of its section.
        default: value if the option is not stated; ``...`` if it must be stated.
        key: name in commands and job files; None: the field's name with hyphens.
    """
    names: list[Any] = [mark.name for mark in marks]
    return Field(default, description=help, alias=key, json_schema_extra={_MARKS: names})


if TYPE_CHECKING:  # pydantic names the type of its models in this private module
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class ExplainedModel(ModelMetaclass):
    """Metaclass of models whose constructor explains a wrong option in one sentence."""

    if not TYPE_CHECKING:  # type checkers read the fields

        def __call__(cls, **options: object) -> Section:  # noqa: N805
            from counton.job.messages import parse_options

            return parse_options(cls, options)


class Section(BaseModel, metaclass=ExplainedModel):
    """Base of the models: options that the help shows under one heading.

    Models are frozen, refuse unknown options, and are built when they are first used.

    Attributes:
        heading: title of the options in the help.
        scope: how long its options hold, unless an option says otherwise.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        defer_build=True,
        arbitrary_types_allowed=True,
        validate_by_name=True,
        validate_by_alias=True,
        validate_default=False,
        alias_generator=lambda name: name.replace("_", "-"),
        hide_input_in_errors=True,
        protected_namespaces=(),
    )
    heading: ClassVar[str] = ""
    scope: ClassVar[OptionScope] = EACH_RUN

    def value_of(self, name: str) -> Any:
        """Return the value of an option; None if the model has no such option."""
        return self.__dict__.get(name)


def has_mark(field: FieldInfo, mark: OptionScope | OptionMark) -> bool:
    """Return whether an option has a mark or scope."""
    extra = field.json_schema_extra
    return isinstance(extra, dict) and mark.name in cast("list[str]", extra[_MARKS])


def section_of(model: type[Section], name: str) -> type[Section]:
    """Return the section that defines an option of a model."""
    return next(base for base in model.__mro__ if name in get_annotations(base))


def scope_of(model: type[Section], name: str) -> OptionScope:
    """Return how long an option of a model holds.

    >>> from counton.job.statistics.count import CountJob
    >>> [scope_of(CountJob, name).name for name in ("every", "until", "output")]
    ['STREAM', 'EACH_RUN', 'OUTPUT']
    """
    field = model.model_fields[name]
    for scope in OptionScope:
        if has_mark(field, scope):
            return scope
    return section_of(model, name).scope


def names_in_scope(model: type[Section], *scopes: OptionScope) -> list[str]:
    """Return the names of a model's options that hold so long, in their order."""
    return [name for name, scope in _scope_by_name(model).items() if scope in scopes]


@lru_cache(maxsize=256)  # a run asks for them several times
def _scope_by_name(model: type[Section]) -> Mapping[str, OptionScope]:
    names = [name for name in model.model_fields if name != "statistic"]
    return {name: scope_of(model, name) for name in names}

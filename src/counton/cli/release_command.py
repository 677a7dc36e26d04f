"""The group ``counton release``: one command for each statistic."""

from __future__ import annotations

from typing import Any

import click

from counton.base.errors import hide_secrets
from counton.cli.command_class import hiding_passwords


class StatisticGroup(click.Group):
    """The commands of statistics by name, each made when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the statistics."""
        from counton.job.statistics import all_models

        return list(all_models())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a statistic; None if there is none of this name."""
        from counton.cli.statistic_commands import statistic_command

        return statistic_command(cmd_name) if self._has_command(ctx, cmd_name) else None

    def _has_command(self, ctx: click.Context, name: str) -> bool:
        from counton.job.statistics import STATISTIC_NAMES

        # Names of other packages' statistics are looked up last, since that loads these packages.
        return name in STATISTIC_NAMES or name in self.list_commands(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words name; suggest one for an unknown name."""
        name = args[0]
        if not self._has_command(ctx, name) and not name.startswith("-"):
            from counton.cli.command_text import command_of
            from counton.job.statistics import nearest_statistic

            message = f"No such command {name!r}."
            statistic = nearest_statistic(name)
            if statistic is not None:
                message += f" Did you mean {command_of(statistic)!r}?"
            raise click.UsageError(hide_secrets(message), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of statistics."""
        from counton.job.statistics import model_of

        lines = [(name, model_of(name).summary) for name in self.list_commands(ctx)]
        with formatter.section("Statistics"):
            formatter.write_dl(lines)

    def make_context(self, *words: Any, **more: Any) -> click.Context:
        """Parse the words after the group; errors show no password."""
        with hiding_passwords():
            return super().make_context(*words, **more)


@click.group("release", cls=StatisticGroup, no_args_is_help=True)
def release() -> None:
    """Release a statistic: count, sum, average, top-k, hierarchy, ranges and others.

    Each statistic has its own options: counton release top-k --help.
    """

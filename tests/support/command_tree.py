"""All commands of the command line by the words that name them, such as ``release top-k``."""

import click

from counton.cli.app import app


def all_commands() -> dict[str, click.Command]:
    """Return every command that is no group."""
    return _commands_of(app, "")


def _commands_of(group: click.Group, prefix: str) -> dict[str, click.Command]:
    commands: dict[str, click.Command] = {}
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if isinstance(command, click.Group):
                commands |= _commands_of(command, f"{prefix}{name} ")
            else:
                commands[f"{prefix}{name}"] = command
    return commands

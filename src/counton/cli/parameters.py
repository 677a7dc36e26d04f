"""Parameters that several commands have."""

from __future__ import annotations

import click

from counton.cli.command_class import option

#: What --json does.
JSON_HELP = "Print one JSON object in place of text."
#: Endings of tables.
TABLE_ENDINGS = ".parquet, .csv or .json"

state_argument = click.argument(
    "state", help="SQLite file or database URL that keeps the streams. It is secret."
)
state_or_table_argument = click.argument(
    "state",
    help="SQLite file or database URL that keeps the streams, secret; or a released table.",
)
json_option = option("--json", "as_json", is_flag=True, help=JSON_HELP)
key_option = option(
    "--key", help="Where the key is: a file, env:NAME or command:... [default: STATE.key]"
)

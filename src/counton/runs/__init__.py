"""Runs of jobs: from the options of a job to a released table.

Read in this order: `terms` (typed values; what excludes each other is a type), `parsing` and
`statistic_parsing` (from a job's options to these values), `stream_spec` (what a stream keeps) and
`planning` (a new stream); then `run_job` (the five steps of a run) with `opened_state`,
`row_source`, `uncounted_files`, `reading`, `due_windows`, `planned_steps` and, for users and row
ids, `chosen_rows`; then `read_journal` and `outputs`.
"""

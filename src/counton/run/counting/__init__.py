"""Which rows count, and what each released window adds to the stream.

In the order of a run:

- `unchanged_rows` ends the planning of a run that releases no window and has only counted rows.
- `plan_steps` is the part of the commit that writes nothing. It uses all of the following modules.
- `rows_of_run` decides which rows of the input may count. It returns one of the two kinds of rows
  in `seen_rows`: new rows, or a snapshot.
- `chosen_rows` chooses among rows of users, or with ids: `contribution_choice` keeps to the bound,
  `contribution_slots` covers corrections, and `remembered_rows` has what the state remembers of
  rows that have counted.
- `kept_totals` has the totals by window that the state keeps.
- `step_inputs` compares rows and totals, and makes the inputs of steps. `measurement` says how sums
  become cells.
- `missing_rows` refuses an input that lacks counted rows, and `exactness` sums that are too large.
- `operator_counts` has exact numbers of rows that did or did not count, for the operator.
"""

"""The rows of a run: where they come from, and their sums by window and group.

In the order of a run:

- `row_source` opens what the job names: files, a data frame or a query.
- `read_rows` is the second step of a run. It uses all of the following modules.
- `uncounted_files` leaves out files of new rows that the stream has counted.
- `kept_sums` takes the sums that the state keeps, if the files have the same bytes as before.
- `row_reading` reads the rows, and adds them up by window and group.
- `window_sums` holds these sums.
- `discovered_groups` finds the names of groups that nobody declared.
- `row_buffer` holds rows of users, and rows with ids, from which `counton.run.counting` chooses.
- `row_numbers` has exact numbers of the rows that were read, for the operator.
"""

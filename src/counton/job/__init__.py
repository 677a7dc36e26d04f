"""Options of jobs: one model for each statistic, from which every interface is made.

Read in this order: `option_fields` (how an option is described), `values` (types of values),
`common_options` (options of every job), `statistics` and `report` (the table of statistics, and one
model for each), `incompatible` (the one table of options that exclude or need each other). The
command line (`counton.cli`), job files (`job_file_tables`, `job_file`, `saved_job`) and the JSON
schema (`json_schema`) are made from the models. `counton.run.spec.parsing` turns the flat options
of a job into typed values.
"""

from counton.base.lazy import require_installed

require_installed("pydantic")

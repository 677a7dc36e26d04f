-- Numbers and intervals are copied, never added up: noise of totals is shared, so intervals of sums
-- do not follow from theirs.
select stream, "group", window_start, window_end, estimate, lower, upper, level
from {{ source('counton', 'counton_releases') }}
where step = last_step

-- Each window of a stream is there, and has one row for a group.
select stream
from {{ source('counton', 'counton_releases') }}
group by stream
having count(distinct step) <> max(last_step)
union all
select stream
from {{ source('counton', 'counton_releases') }}
group by stream, "group", step
having count(*) <> 1

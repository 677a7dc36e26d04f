select stream, step, "group"
from {{ source('counton', 'counton_releases') }}
where estimate < lower or estimate > upper

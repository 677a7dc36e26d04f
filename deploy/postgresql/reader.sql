-- What counton_reader may read: run as counton_publisher in the database counton_public, once the
-- first stream is published. The view, and what is public of the streams, which `counton.read` and
-- `counton answer` need besides; not the tables below the view.

GRANT SELECT ON counton_releases, counton_published_streams, counton_published_descriptions,
    counton_published_cells TO counton_reader;

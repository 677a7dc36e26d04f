-- What counton_reader may read: run as counton_publisher in the database counton_public, once the
-- first stream is published. The view and the streams' guarantees, not the tables below the view.

GRANT SELECT ON counton_releases, counton_published_streams TO counton_reader;

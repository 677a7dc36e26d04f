-- What counton_reader may read: run as counton_publisher in the database counton_public, once the
-- first stream is published. The view, and what is public of the streams, which tools of SQL
-- needs besides; not the table of rows below the view.

GRANT SELECT ON counton_releases, counton_published_streams TO counton_reader;

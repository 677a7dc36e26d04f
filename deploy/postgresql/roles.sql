-- Two databases and three roles; run once, by who may create them: psql -f roles.sql
--
-- counton            states: exact sums, secret. Of counton_writer, who runs `counton run`.
-- counton_public     what is published. Of counton_publisher, who runs `counton publish`.
-- counton_reader     who looks: Grafana, Metabase, psql. Sees what is published, and no state.
--
-- The role that reads the events (reader in deploy/kubernetes/nightly.yaml) is made by who keeps the
-- events, on their server: CREATE ROLE reader LOGIN; GRANT SELECT ON visits TO reader.
--
-- Give the roles passwords with \password, or let pg_hba.conf say how they are known.

CREATE ROLE counton_writer LOGIN;
CREATE ROLE counton_publisher LOGIN;
CREATE ROLE counton_reader LOGIN;

-- The template is named because the usual one may have another encoding.
CREATE DATABASE counton OWNER counton_writer ENCODING 'UTF8' TEMPLATE template0;
CREATE DATABASE counton_public OWNER counton_publisher ENCODING 'UTF8' TEMPLATE template0;

REVOKE ALL ON DATABASE counton, counton_public FROM PUBLIC;
GRANT CONNECT ON DATABASE counton TO counton_publisher;
GRANT CONNECT ON DATABASE counton_public TO counton_reader;

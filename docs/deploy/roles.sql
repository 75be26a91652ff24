-- The roles and the database, on a server of your own; may be run again. As a superuser:
--   psql -v database=cuzk -v owner=PASSWORD -v daemon=PASSWORD -v site=PASSWORD -f roles.sql
\set ON_ERROR_STOP on
SELECT format('CREATE ROLE %I NOLOGIN', name) FROM (VALUES ('cuzk_prover'), ('cuzk_web')) AS groups (name)
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec
SELECT format('CREATE ROLE %I LOGIN', name) FROM (VALUES ('cuzk_owner'), ('cuzk_daemon'), ('cuzk_site')) AS logins (name)
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec
ALTER ROLE cuzk_owner PASSWORD :'owner';
ALTER ROLE cuzk_daemon PASSWORD :'daemon';
ALTER ROLE cuzk_site PASSWORD :'site';
GRANT cuzk_prover TO cuzk_daemon;
GRANT cuzk_web TO cuzk_site;
SELECT format('CREATE DATABASE %I OWNER cuzk_owner', :'database')
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec
REVOKE ALL ON DATABASE :"database" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"database" TO cuzk_prover, cuzk_web;

-- The groups that hold the rights; logins are members of one. Roles belong to the whole server, so they may exist.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'cuzk_prover') THEN
        CREATE ROLE cuzk_prover NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'cuzk_web') THEN
        CREATE ROLE cuzk_web NOLOGIN;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'the roles cuzk_prover and cuzk_web are missing: make them as a superuser (CREATE ROLE ... NOLOGIN)';
END $$;

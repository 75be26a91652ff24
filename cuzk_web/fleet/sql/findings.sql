-- What the audit of the pages finds is an anomaly of the site; the same one is written once in ten minutes, however many
-- web processes find it.
CREATE OR REPLACE FUNCTION record_finding(
    p_code text, p_entity text, p_id text, p_old text, p_new text, p_text text
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF p_code !~ '^audit_[a-z]{1,20}$' THEN
        RAISE EXCEPTION 'no finding %', p_code USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM lock_site();
    PERFORM FROM (SELECT * FROM anomaly ORDER BY id DESC LIMIT 1000) newest
    WHERE code = p_code AND entity = p_entity AND entity_id = p_id AND at > clock_timestamp() - interval '10 minutes';
    IF FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO anomaly (session_id, at, code, entity, entity_id, old, new, detail)
    VALUES (site_session(), clock_timestamp(), p_code, left(p_entity, 100), left(p_id, 500), left(p_old, 500),
            left(p_new, 500), jsonb_build_object('text', left(p_text, 1000)));
    RETURN true;
END $$;

REVOKE ALL ON FUNCTION record_finding FROM PUBLIC;
GRANT EXECUTE ON FUNCTION record_finding TO cuzk_web;

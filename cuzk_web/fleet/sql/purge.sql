-- Remove what nobody looks at any more, some rows at a time: samples after a day, anomalies after 30 days. What jobs did
-- is never touched here. Returns how many rows went.
CREATE FUNCTION purge(p_limit integer DEFAULT 20000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_samples integer;
    v_anomalies integer;
BEGIN
    DELETE FROM sample WHERE id IN (
        SELECT id FROM sample WHERE at < now() - interval '1 day' ORDER BY id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_samples = ROW_COUNT;
    DELETE FROM anomaly WHERE id IN (
        SELECT id FROM anomaly WHERE at < now() - interval '30 days' ORDER BY id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_anomalies = ROW_COUNT;
    RETURN v_samples + v_anomalies;
END $$;

REVOKE ALL ON FUNCTION purge FROM PUBLIC;
GRANT EXECUTE ON FUNCTION purge TO cuzk_prover, cuzk_web;

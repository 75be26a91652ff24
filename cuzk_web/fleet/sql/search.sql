-- What the history's search looks jobs up by. Postgres' own index of arrays serves it: the extension pg_trgm is not part of
-- every installation. The words of a job are all parts of three characters of its request id, in capitals, and, longer
-- than those, its miner, its sector and its error. They lie beside the job, so that its moves write no index of them.
CREATE OR REPLACE FUNCTION search_parts(p_text text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    v_text text := upper(p_text);
    v_parts text[] := '{}';
BEGIN
    FOR i IN 1 .. length(v_text) - 2 LOOP  -- a query for them takes several times as long
        v_parts := v_parts || substr(v_text, i, 3);
    END LOOP;
    RETURN v_parts;
END $$;

CREATE OR REPLACE FUNCTION search_words(p_job job) RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT array_remove(search_parts(p_job.request_id) || ARRAY[
        'miner:' || p_job.miner_id, 'sector:' || p_job.sector_number, 'error:' || p_job.error_code], NULL)
$$;

CREATE OR REPLACE FUNCTION index_job() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO job_search (job_id, words) VALUES (NEW.id, search_words(NEW))
    ON CONFLICT (job_id) DO UPDATE SET words = EXCLUDED.words;
    RETURN NULL;
END $$;

REVOKE ALL ON FUNCTION index_job FROM PUBLIC;
GRANT EXECUTE ON FUNCTION search_parts TO cuzk_web;

CREATE OR REPLACE TRIGGER job_submitted AFTER INSERT ON job FOR EACH ROW EXECUTE FUNCTION index_job();
CREATE OR REPLACE TRIGGER job_failed AFTER UPDATE OF error_code ON job FOR EACH ROW
    WHEN (OLD.error_code IS DISTINCT FROM NEW.error_code) EXECUTE FUNCTION index_job();

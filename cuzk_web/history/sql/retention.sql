-- How long each thing is kept, and what removes the rest, some rows at a time. An open job, and what it did, never goes;
-- an ended one not before it is in the sums of its hour, and the log not before there is a fold of it to replay from.
INSERT INTO retention (name, days, meaning) VALUES
    ('samples', 1, 'Gauges as they were sampled, one a second; then one a minute is left.'),
    ('samples_minute', 30, 'One sample a minute; then one an hour is left.'),
    ('samples_hour', 365, 'One sample an hour.'),
    ('anomalies', 30, 'Moves that were refused.'),
    ('transitions', 30, 'The event log of jobs that have ended, and the replay of it.'),
    ('jobs', 365, 'Jobs that have ended, with requests, attempts and proofs. Their sums by hour and day stay.')
ON CONFLICT (name) DO NOTHING;

CREATE OR REPLACE FUNCTION kept_since(p_name text) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT now() - days * interval '1 day' FROM retention WHERE name = p_name
$$;

-- Of the samples of a minute, later of an hour, the last one stays.
CREATE OR REPLACE FUNCTION purge_samples(p_limit integer) RETURNS integer
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_minutes timestamptz := kept_since('samples_minute');
    v_hours timestamptz := kept_since('samples_hour');
    v_gone integer;
BEGIN
    DELETE FROM sample WHERE id IN (
        SELECT s.id FROM sample s WHERE s.at < kept_since('samples') AND (s.at < v_hours OR EXISTS (
            SELECT FROM sample later WHERE later.session_id = s.session_id AND later.at > s.at
                AND later.at < CASE WHEN s.at < v_minutes THEN date_trunc('hour', s.at, 'UTC') + interval '1 hour'
                                    ELSE date_trunc('minute', s.at, 'UTC') + interval '1 minute' END))
        ORDER BY s.id LIMIT p_limit FOR UPDATE OF s SKIP LOCKED);
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_gone;
END $$;

CREATE OR REPLACE FUNCTION purge_anomalies(p_limit integer) RETURNS integer
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_gone integer;
BEGIN
    DELETE FROM anomaly WHERE id IN (
        SELECT id FROM anomaly WHERE at < kept_since('anomalies') ORDER BY id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_gone;
END $$;

CREATE OR REPLACE FUNCTION purge_jobs(p_limit integer) RETURNS integer
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_jobs uuid[] := ARRAY(
        SELECT id FROM job WHERE ended_at < kept_since('jobs')
            AND NOT EXISTS (SELECT FROM attempt WHERE job_id = job.id
                AND state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'lost'))
            AND EXISTS (SELECT FROM job_rollup WHERE span = 'hour' AND kind = ''
                AND start = date_trunc('hour', job.ended_at, 'UTC'))
        ORDER BY ended_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
BEGIN
    IF cardinality(v_jobs) = 0 THEN
        RETURN 0;
    END IF;
    DELETE FROM transition WHERE job = ANY (v_jobs);
    DELETE FROM attempt WHERE job_id = ANY (v_jobs);
    DELETE FROM proof WHERE job_id = ANY (v_jobs);
    DELETE FROM delivery WHERE job_id = ANY (v_jobs);
    DELETE FROM job_input WHERE job_id = ANY (v_jobs);
    DELETE FROM job_search WHERE job_id = ANY (v_jobs);
    UPDATE job SET retry_of_id = NULL WHERE retry_of_id = ANY (v_jobs);
    DELETE FROM job WHERE id = ANY (v_jobs);
    RETURN cardinality(v_jobs);
END $$;

-- A session's rows are in the order of their times: the old ones are its first. What open jobs did stays among them.
CREATE OR REPLACE FUNCTION purge_transitions(p_limit integer) RETURNS integer
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_until timestamptz;
    v_session record;
    v_gone integer;
    v_all integer := 0;
BEGIN
    SELECT max(at) INTO v_until FROM checkpoint WHERE at <= kept_since('transitions');
    IF v_until IS NULL THEN
        RETURN 0;
    END IF;
    -- a replay begins with the fold that is left: said before the rows go, so that nobody folds half of them
    UPDATE retention SET reached = v_until WHERE name = 'transitions' AND reached IS DISTINCT FROM v_until;
    DELETE FROM checkpoint WHERE at < v_until;
    FOR v_session IN
        SELECT s.id, (c.heads ->> s.id::text)::bigint AS head, s.ended_at FROM session s
            CROSS JOIN (SELECT heads FROM checkpoint WHERE at = v_until ORDER BY id LIMIT 1) AS c
        WHERE s.started_at < v_until AND EXISTS (SELECT FROM transition WHERE session_id = s.id) ORDER BY s.started_at
    LOOP
        DELETE FROM transition WHERE session_id = v_session.id AND seq IN (
            SELECT t.seq FROM transition t WHERE t.session_id = v_session.id
                AND (t.seq <= v_session.head OR v_session.head IS NULL AND v_session.ended_at < v_until)
                AND NOT EXISTS (SELECT FROM job WHERE job.id = t.job AND job.ended_at IS NULL)
            ORDER BY t.seq LIMIT p_limit - v_all);
        GET DIAGNOSTICS v_gone = ROW_COUNT;
        v_all := v_all + v_gone;
        EXIT WHEN v_all >= p_limit;
    END LOOP;
    RETURN v_all;
END $$;

CREATE OR REPLACE FUNCTION purge(p_limit integer DEFAULT 20000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(6790000005931925251) THEN  -- another is at it
        RETURN 0;
    END IF;
    RETURN purge_samples(p_limit) + purge_anomalies(p_limit) + purge_transitions(p_limit)
        + purge_jobs(greatest(p_limit / 100, 1));
END $$;

REVOKE ALL ON FUNCTION purge_samples FROM PUBLIC;
REVOKE ALL ON FUNCTION purge_anomalies FROM PUBLIC;
REVOKE ALL ON FUNCTION purge_jobs FROM PUBLIC;
REVOKE ALL ON FUNCTION purge_transitions FROM PUBLIC;

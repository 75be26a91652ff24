-- What the bridge writes of a daemon that it only watches: a session of its own, jobs that nobody else can take, moves
-- that its guards accepted. A watched session has `source` in its detail, and so have its jobs. Nothing here can touch
-- what belongs to a prover.

-- Begin to watch. Earlier sessions of the name are lost. Raises unique_violation when a prover has the name.
CREATE OR REPLACE FUNCTION watch_begin(p_source text, p_host text) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_id uuid := gen_random_uuid();
BEGIN
    IF p_source !~ '^[^/: ]{1,100}$' OR p_source = 'site' THEN
        RAISE EXCEPTION 'no name of a daemon' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM lock_site();
    IF EXISTS (SELECT FROM session WHERE prover = p_source AND NOT detail ? 'source') THEN
        RAISE EXCEPTION 'a prover is called %', p_source USING ERRCODE = 'unique_violation';
    END IF;
    PERFORM lose_session(id, 'superseded') FROM session WHERE prover = p_source AND ended_at IS NULL;
    INSERT INTO session (id, prover, state, state_at, times, detail, moved_seq, host, machine, pid, version, head_seq,
                         started_at, heartbeat_at, lease_until)
    VALUES (v_id, p_source, '', now(), '{}', jsonb_build_object('source', p_source), 0, left(p_host, 200), '', NULL, '', 0,
            now(), now(), now() + lease_length());
    RETURN v_id;
END $$;

-- A job of the daemon: the open one of this id that was watched before, back in the queue for this session alone, or a new
-- one. Gives when it was queued, and of each partition the number of its newest attempt.
CREATE OR REPLACE FUNCTION watch_job(
    p_session uuid, p_job_id text, p_kind text, p_partitions integer,
    OUT job uuid, OUT number bigint, OUT at_us bigint, OUT seq bigint, OUT detail jsonb, OUT attempts jsonb
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_source text := watched_source(p_session);
    v_request text := v_source || '/' || p_job_id;
    v_times bigint;
    v_state text;
    v_at timestamptz;
BEGIN
    PERFORM lock_site();
    SELECT j.id, j.number, j.state INTO job, number, v_state FROM job j
    WHERE j.ended_at IS NULL AND j.detail ->> 'source' = v_source AND j.detail ->> 'watched_id' = p_job_id
        AND j.partitions = p_partitions AND j.session_id IS NULL ORDER BY j.number DESC LIMIT 1 FOR UPDATE;
    IF FOUND THEN
        v_at := CASE WHEN v_state = 'queued' THEN clock_timestamp()
            ELSE site_move('job', job::text, 'queued', 'watched_again', '{}', job) END;
        UPDATE job j SET session_id = p_session WHERE j.id = job;
    ELSE
        SELECT count(*) INTO v_times FROM job j WHERE j.request_id = v_request OR j.request_id LIKE replace(replace(replace(
            v_request, '\', '\\'), '%', '\%'), '_', '\_') || '#%';
        job := gen_random_uuid();
        number := nextval('job_number');
        v_at := clock_timestamp();
        v_request := v_request || CASE WHEN v_times > 0 THEN '#' || v_times + 1 ELSE '' END;
        detail := jsonb_build_object(
            'request_id', v_request, 'kind', p_kind, 'number', number, 'partitions', p_partitions, 'partition_index', 0,
            'submitted_by', 'seen at ' || v_source, 'source', v_source, 'watched_id', p_job_id);
        INSERT INTO job (id, number, request_id, request_digest, kind, sector_size, priority, partition_index, partitions,
                         partitions_done, state, state_at, times, detail, moved_by, moved_seq, submitted_by, submitted_at,
                         session_id, lease_epoch, losses, timings)
        VALUES (job, number, v_request, '', p_kind, 0, 0, 0, p_partitions, 0, 'queued', v_at,
                jsonb_build_object('queued', to_us(v_at)), detail, site_session(), 0, 'seen at ' || v_source, v_at,
                p_session, 0, 0, '{}');
        UPDATE job j SET moved_seq = site_event(
            v_at, 'job', j.id::text, '', 'queued', j.id, NULL, NULL, NULL, NULL, j.detail)
        WHERE j.id = watch_job.job;
    END IF;
    SELECT j.detail, to_us(j.state_at), j.moved_seq INTO detail, at_us, seq FROM job j WHERE j.id = job;
    SELECT coalesce(jsonb_object_agg(a.partition, a.latest), '{}') INTO attempts
    FROM (SELECT partition, max(attempt_no) AS latest FROM attempt WHERE job_id = job GROUP BY partition) a;
END $$;

-- The name of a watched session that has not ended. Raises no_data_found for any other.
CREATE OR REPLACE FUNCTION watched_source(p_session uuid) RETURNS text
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_source text;
BEGIN
    SELECT prover INTO v_source FROM session
    WHERE id = p_session AND detail ? 'source' AND state IN ('', 'starting', 'online') FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no watched session' USING ERRCODE = 'no_data_found';
    END IF;
    RETURN v_source;
END $$;

-- Moves of a watched session and the rows that they lead to, a heartbeat, a sample, and what was found odd, in one
-- transaction. `rows` are transitions with the fields of the table; `views` the things that they moved, with rank. Raises
-- no_data_found when the session has ended.
CREATE OR REPLACE FUNCTION watch_write(p_session uuid, p_rows jsonb, p_views jsonb, p_gauges jsonb, p_odd jsonb)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_source text := watched_source(p_session);
    v_head bigint;
    v_first bigint;
    v_row record;
BEGIN
    SELECT head_seq INTO v_head FROM session WHERE id = p_session;
    SELECT min(r.seq) INTO v_first FROM jsonb_to_recordset(p_rows) AS r(seq bigint);
    IF v_first <> v_head + 1 THEN
        RAISE EXCEPTION 'the next number is %, not %', v_head + 1, v_first USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO transition (session_id, seq, at, mono_ns, entity, entity_id, old, new, job, partition, attempt_no, worker,
                            reason, detail)
    SELECT p_session, r.seq, from_us(r.at_us), r.mono_ns, r.entity, r.entity_id, r.old, r.new, r.job, r.partition,
        r.attempt_no, r.worker, r.reason, r.detail
    FROM jsonb_to_recordset(p_rows) AS r(seq bigint, at_us bigint, mono_ns bigint, entity text, entity_id text, old text,
        new text, job uuid, partition integer, attempt_no integer, worker text, reason text, detail jsonb);
    UPDATE session s SET head_seq = v_head + jsonb_array_length(p_rows), heartbeat_at = clock_timestamp(),
        tick_at = clock_timestamp(), lease_until = clock_timestamp() + lease_length() WHERE s.id = p_session;
    PERFORM watch_rows(p_session, v_source, p_views);
    INSERT INTO sample (session_id, at, gauges) VALUES (p_session, clock_timestamp(), p_gauges) ON CONFLICT DO NOTHING;
    INSERT INTO anomaly (session_id, at, code, entity, entity_id, old, new, detail)
    SELECT p_session, clock_timestamp(), r.code, r.entity, r.entity_id, r.old, r.new, jsonb_build_object('text', r.text)
    FROM jsonb_to_recordset(p_odd) AS r(code text, entity text, entity_id text, old text, new text, text text);
    FOR v_row IN SELECT id FROM command WHERE prover = v_source AND state IN ('pending', 'taken') FOR UPDATE LOOP
        PERFORM answer_command(v_row.id, 'refused', 'the daemon is only watched: it takes no commands from here');
    END LOOP;
    PERFORM pg_notify('cuzk', '');
END $$;

CREATE OR REPLACE FUNCTION watch_views(p_views jsonb) RETURNS TABLE (
    entity text, id text, state text, state_at timestamptz, times jsonb, detail jsonb, reason text, seq bigint, job uuid,
    partition integer, attempt_no integer, worker text, rank integer
) LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
    SELECT r.entity, r.id, r.state, from_us(r.at_us), r.times, r.detail, r.reason, r.seq, r.job, r.partition, r.attempt_no,
        r.worker, r.rank
    FROM jsonb_to_recordset(p_views) AS r(entity text, id text, state text, at_us bigint, times jsonb, detail jsonb,
        reason text, seq bigint, job uuid, partition integer, attempt_no integer, worker text, rank integer)
$$;

-- The rows of what was moved, each only where it belongs to the session's own source.
CREATE OR REPLACE FUNCTION watch_rows(p_session uuid, p_source text, p_views jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM watch_views(p_views) AS watched WHERE entity = 'session' AND id <> p_session::text
            OR entity IN ('device', 'worker') AND NOT starts_with(id, p_source || '/')
            OR entity = 'holding' AND NOT starts_with(id, p_source || ':')
            OR entity NOT IN ('session', 'device', 'worker', 'holding', 'job', 'attempt')
            OR entity IN ('job', 'attempt') AND NOT EXISTS (
                SELECT FROM job j WHERE j.id = watched.job AND j.session_id = p_session AND j.detail ->> 'source' = p_source)
    ) THEN
        RAISE EXCEPTION 'a row of somebody else' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE session s SET state = w.state, state_at = w.state_at, times = w.times, detail = s.detail || w.detail,
        reason = w.reason, moved_by = p_session, moved_seq = w.seq, version = coalesce(w.detail ->> 'version', s.version),
        ended_at = CASE WHEN w.state IN ('stopped', 'lost') THEN w.state_at END
    FROM watch_views(p_views) w WHERE w.entity = 'session' AND s.id = p_session;
    INSERT INTO device (id, session_id, ordinal, name, platform, state, state_at, times, detail, reason, moved_by, moved_seq)
    SELECT w.id, p_session, (w.detail ->> 'ordinal')::integer, w.detail ->> 'name', w.detail ->> 'platform', w.state,
        w.state_at, w.times, w.detail, w.reason, p_session, w.seq FROM watch_views(p_views) w WHERE w.entity = 'device'
    ON CONFLICT (id) DO UPDATE SET session_id = EXCLUDED.session_id, state = EXCLUDED.state, state_at = EXCLUDED.state_at,
        times = device.times || EXCLUDED.times, detail = device.detail || EXCLUDED.detail, reason = EXCLUDED.reason,
        moved_by = EXCLUDED.moved_by, moved_seq = EXCLUDED.moved_seq;
    INSERT INTO worker (id, session_id, device_id, prover, ordinal, sub_id, display_id, epoch, admin, admin_times,
        admin_detail, admin_moved_seq, state, state_at, times, detail, reason, moved_by, moved_seq)
    SELECT w.id, p_session, regexp_replace(w.id, '/[^/]*$', ''), p_source, (w.detail ->> 'ordinal')::integer,
        (w.detail ->> 'sub')::integer, (w.detail ->> 'number')::integer, 1, 'enabled', '{}', '{}', 0, w.state, w.state_at,
        w.times, w.detail, w.reason, p_session, w.seq FROM watch_views(p_views) w WHERE w.entity = 'worker'
    ON CONFLICT (id) DO UPDATE SET session_id = EXCLUDED.session_id, state = EXCLUDED.state, state_at = EXCLUDED.state_at,
        times = worker.times || EXCLUDED.times, detail = worker.detail || EXCLUDED.detail, reason = EXCLUDED.reason,
        moved_by = EXCLUDED.moved_by, moved_seq = EXCLUDED.moved_seq;
    INSERT INTO holding (id, session_id, state, state_at, times, detail, reason, moved_by, moved_seq)
    SELECT w.id, p_session, w.state, w.state_at, w.times, w.detail, w.reason, p_session, w.seq
    FROM watch_views(p_views) w WHERE w.entity = 'holding'
    ON CONFLICT (id) DO UPDATE SET session_id = EXCLUDED.session_id, state = EXCLUDED.state, state_at = EXCLUDED.state_at,
        times = holding.times || EXCLUDED.times, detail = holding.detail || EXCLUDED.detail, reason = EXCLUDED.reason,
        moved_by = EXCLUDED.moved_by, moved_seq = EXCLUDED.moved_seq;
    INSERT INTO attempt (id, session_id, job_id, partition, attempt_no, worker_id, state, state_at, times, detail, reason,
        moved_by, moved_seq)
    SELECT w.id, p_session, w.job, w.partition, w.attempt_no, w.worker, w.state, w.state_at, w.times, w.detail, w.reason,
        p_session, w.seq FROM watch_views(p_views) w WHERE w.entity = 'attempt' ORDER BY w.rank
    ON CONFLICT (id) DO UPDATE SET worker_id = EXCLUDED.worker_id, state = EXCLUDED.state, state_at = EXCLUDED.state_at,
        times = EXCLUDED.times, detail = EXCLUDED.detail, reason = EXCLUDED.reason, moved_by = EXCLUDED.moved_by,
        moved_seq = EXCLUDED.moved_seq;
    UPDATE job j SET state = w.state, state_at = w.state_at, times = j.times || w.times, detail = j.detail || w.detail,
        reason = w.reason, moved_by = p_session, moved_seq = w.seq,
        started_at = coalesce(j.started_at, from_us((w.times ->> 'loading')::bigint)),
        ended_at = CASE WHEN w.state IN ('done', 'failed', 'cancelled') THEN w.state_at END,
        error_code = w.detail ->> 'error_code', error_message = w.detail ->> 'error'
    FROM watch_views(p_views) w WHERE w.entity = 'job' AND j.id = w.job;
    UPDATE job j SET partitions_done = (
        SELECT count(DISTINCT a.partition) FROM attempt a WHERE a.job_id = j.id AND a.state = 'done')
    WHERE j.id IN (SELECT w.job FROM watch_views(p_views) w WHERE w.entity = 'attempt' AND w.state = 'done');
    PERFORM count_end(j.kind, w.state) FROM watch_views(p_views) w JOIN job j ON j.id = w.job
    WHERE w.entity = 'job' AND w.state IN ('done', 'failed', 'cancelled');
END $$;

-- The end of watching: the daemon was started anew, or nobody watches any more.
CREATE OR REPLACE FUNCTION watch_end(p_session uuid, p_reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM lock_site();
    RETURN EXISTS (SELECT FROM session WHERE id = p_session AND detail ? 'source') AND lose_session(p_session, p_reason);
END $$;

REVOKE ALL ON FUNCTION watch_begin FROM PUBLIC;
REVOKE ALL ON FUNCTION watch_job FROM PUBLIC;
REVOKE ALL ON FUNCTION watched_source FROM PUBLIC;
REVOKE ALL ON FUNCTION watch_write FROM PUBLIC;
REVOKE ALL ON FUNCTION watch_views FROM PUBLIC;
REVOKE ALL ON FUNCTION watch_rows FROM PUBLIC;
REVOKE ALL ON FUNCTION watch_end FROM PUBLIC;
GRANT EXECUTE ON FUNCTION watch_begin TO cuzk_web;
GRANT EXECUTE ON FUNCTION watch_job TO cuzk_web;
GRANT EXECUTE ON FUNCTION watch_write TO cuzk_web;
GRANT EXECUTE ON FUNCTION watch_end TO cuzk_web;

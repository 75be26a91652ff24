-- The one `site` session numbers what the web and SQL itself do: densely and in commit order, because its row stays
-- locked until the commit. Nobody may call these but the functions of the other files.

CREATE OR REPLACE FUNCTION site_session() RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT '00000000-0000-0000-0000-000000000000'::uuid $$;

-- Who will lock rows of provers and then log an event locks the site first, or two of them could wait for each other.
CREATE OR REPLACE FUNCTION lock_site() RETURNS void
LANGUAGE sql SET search_path = public, pg_temp AS $$
    INSERT INTO session (id, prover, state, state_at, times, detail, moved_seq, host, machine, version, head_seq, started_at)
    VALUES (site_session(), 'site', 'online', clock_timestamp(), '{}', '{}', 0, '', '', '', 0, clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET prover = 'site'
$$;

CREATE OR REPLACE FUNCTION site_event(
    p_at timestamptz, p_entity text, p_id text, p_old text, p_new text, p_job uuid, p_partition integer,
    p_attempt_no integer, p_worker text, p_reason text, p_detail jsonb
) RETURNS bigint LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_seq bigint;
BEGIN
    LOOP
        UPDATE session SET head_seq = head_seq + 1 WHERE id = site_session() RETURNING head_seq INTO v_seq;
        EXIT WHEN FOUND;
        PERFORM lock_site();
    END LOOP;
    INSERT INTO transition (session_id, seq, at, mono_ns, entity, entity_id, old, new, job, partition, attempt_no,
                            worker, reason, detail)
    VALUES (site_session(), v_seq, p_at, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint, p_entity, p_id,
            p_old, p_new, p_job, p_partition, p_attempt_no, p_worker, p_reason, p_detail);
    PERFORM pg_notify('cuzk', '');
    RETURN v_seq;
END $$;

-- Move one row of a state table as the fold would, and log it; the move is later than the row's last one. A job that
-- stays in its state is noted: the note has a time of its own.
CREATE OR REPLACE FUNCTION site_move(
    p_entity text, p_id text, p_new text, p_reason text, p_detail jsonb DEFAULT '{}', p_job uuid DEFAULT NULL,
    p_partition integer DEFAULT NULL, p_attempt_no integer DEFAULT NULL, p_worker text DEFAULT NULL
) RETURNS timestamptz LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_type text := CASE WHEN p_entity IN ('session', 'job', 'command') THEN 'uuid' ELSE 'text' END;
    v_old text;
    v_at timestamptz;
    v_seq bigint;
BEGIN
    EXECUTE format(
        'SELECT state, greatest(clock_timestamp(), state_at + interval ''1 microsecond'') FROM %I
         WHERE id = $1::%s FOR UPDATE', p_entity, v_type) INTO STRICT v_old, v_at USING p_id;
    v_seq := site_event(v_at, p_entity, p_id, v_old, p_new, p_job, p_partition, p_attempt_no, p_worker, p_reason, p_detail);
    EXECUTE format(
        'UPDATE %I SET state = $2, state_at = $3, times = times || jsonb_build_object($7, to_us($3)), reason = $4,
         detail = detail || $5, moved_by = site_session(), moved_seq = $6 WHERE id = $1::%s', p_entity, v_type)
        USING p_id, p_new, v_at, p_reason, p_detail, v_seq,
            CASE WHEN p_entity = 'job' AND v_old = p_new THEN 'noted' ELSE p_new END;
    RETURN v_at;
END $$;

CREATE OR REPLACE FUNCTION count_end(p_kind text, p_state text) RETURNS void
LANGUAGE sql SET search_path = public, pg_temp AS $$
    INSERT INTO counter (kind, state, count) VALUES (p_kind, p_state, 1)
    ON CONFLICT (kind, state) DO UPDATE SET count = counter.count + 1
$$;

REVOKE ALL ON FUNCTION lock_site FROM PUBLIC;
REVOKE ALL ON FUNCTION site_event FROM PUBLIC;
REVOKE ALL ON FUNCTION site_move FROM PUBLIC;
REVOKE ALL ON FUNCTION count_end FROM PUBLIC;

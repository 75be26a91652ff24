-- Sessions whose lease ran out, judged on the database's clock. Anybody may look, as often as they like: marking is
-- idempotent, and it does nothing until the database and its observers have been there for one full lease.

CREATE OR REPLACE FUNCTION lease_length() RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT interval '12 seconds' $$;

-- Lock all that a session holds, and the counters, waiting for nobody: false, and nothing locked, when somebody else has
-- one of the rows in hand. Who waited for a row with the site locked would keep everybody from the site meanwhile.
CREATE OR REPLACE FUNCTION lock_held(p_session uuid) RETURNS boolean
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM FROM holding WHERE session_id = p_session FOR UPDATE NOWAIT;
    PERFORM FROM device WHERE session_id = p_session FOR UPDATE NOWAIT;
    PERFORM FROM worker WHERE session_id = p_session FOR UPDATE NOWAIT;
    PERFORM FROM attempt WHERE session_id = p_session
        AND state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'lost') FOR UPDATE NOWAIT;
    PERFORM FROM job WHERE session_id = p_session AND ended_at IS NULL FOR UPDATE NOWAIT;
    PERFORM FROM command WHERE action = 'cancel' AND state IN ('pending', 'taken')
        AND target IN (SELECT id::text FROM job WHERE session_id = p_session AND ended_at IS NULL) FOR UPDATE NOWAIT;
    PERFORM FROM counter FOR UPDATE NOWAIT;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- A session's end against its will: the session first, then what it held. Its jobs go back to the queue; or they are
-- cancelled, when that was wished, or fail when they were worked on in more than two lost sessions. False when it had
-- ended already, or when somebody else has in hand what it held: then the next look does it.
CREATE OR REPLACE FUNCTION lose_session(p_session uuid, p_reason text) RETURNS boolean
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_row record;
    v_at timestamptz;
BEGIN
    PERFORM FROM session WHERE id = p_session AND state IN ('', 'starting', 'online') AND id <> site_session() FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM lock_site();
    IF NOT lock_held(p_session) THEN
        RETURN false;
    END IF;
    v_at := site_move('session', p_session::text, 'lost', p_reason);
    UPDATE session SET ended_at = v_at WHERE id = p_session;
    FOR v_row IN SELECT id, state FROM holding WHERE session_id = p_session AND state IN ('loading', 'compiling', 'ready')
                 ORDER BY id LOOP
        PERFORM site_move('holding', v_row.id, CASE v_row.state WHEN 'ready' THEN 'evicted' ELSE 'failed' END, p_reason);
    END LOOP;
    FOR v_row IN SELECT id FROM device WHERE session_id = p_session AND state IN ('starting', 'online') ORDER BY id LOOP
        PERFORM site_move('device', v_row.id, 'lost', p_reason);
    END LOOP;
    FOR v_row IN SELECT id FROM worker WHERE session_id = p_session AND state IN ('starting', 'online') ORDER BY id LOOP
        PERFORM site_move('worker', v_row.id, 'lost', p_reason, '{}', NULL, NULL, NULL, v_row.id);
    END LOOP;
    FOR v_row IN SELECT * FROM attempt WHERE session_id = p_session
                 AND state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'lost') ORDER BY job_id, partition LOOP
        PERFORM site_move('attempt', v_row.id, 'lost', p_reason, '{}', v_row.job_id, v_row.partition, v_row.attempt_no,
                          v_row.worker_id);
    END LOOP;
    PERFORM give_back_job(id, p_reason) FROM (
        SELECT id FROM job WHERE session_id = p_session AND ended_at IS NULL ORDER BY number FOR UPDATE) AS held;
    PERFORM pg_notify('cuzk_work', '');
    RETURN true;
END $$;

-- Whether a session worked on a job: an attempt of its own got beyond waiting. Only such a loss may be the job's doing.
CREATE OR REPLACE FUNCTION was_worked_on(p_job uuid, p_session uuid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM attempt WHERE job_id = p_job AND session_id = p_session AND times ? 'reserved')
$$;

-- How often a job was given back already. One that kills its provers while they load it counts no loss, and must end too.
CREATE OR REPLACE FUNCTION times_given_back(p_job uuid) RETURNS bigint
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT count(*) FROM transition
    WHERE job = p_job AND entity = 'job' AND new = 'queued' AND old <> '' AND session_id = site_session()
$$;

-- A job whose session was lost: it is cancelled when somebody wished that and the prover did not live to execute it.
-- A loss counts against the job when it was worked on there, and the third one fails it; so does the tenth, whatever was
-- done.
CREATE OR REPLACE FUNCTION give_back_job(p_job uuid, p_reason text) RETURNS void
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_job job%ROWTYPE;
    v_at timestamptz;
    v_error text;
    v_losses integer;
    v_by text;
BEGIN
    SELECT * INTO STRICT v_job FROM job WHERE id = p_job FOR UPDATE;
    IF v_job.detail ? 'source' THEN  -- a watched daemon does it, or did: nobody here can
        UPDATE job SET session_id = NULL WHERE id = p_job;
        RETURN;
    END IF;
    v_by := cancel_wished_by(p_job);
    v_losses := v_job.losses + was_worked_on(p_job, v_job.session_id)::integer;
    IF v_by IS NOT NULL THEN
        UPDATE job SET losses = v_losses WHERE id = p_job;
        PERFORM end_cancelled(p_job, v_by);
    ELSIF v_job.state IN ('queued', 'held') THEN  -- leased, but nothing was done
        UPDATE job SET session_id = NULL WHERE id = p_job;
    ELSIF v_losses < 3 AND times_given_back(p_job) < 9 THEN
        PERFORM site_move('job', p_job::text, 'queued', p_reason, '{}', p_job);
        UPDATE job SET session_id = NULL, losses = v_losses WHERE id = p_job;
    ELSE
        v_error := CASE WHEN v_losses < 3 THEN 'its session was lost ten times before any work on it began'
            ELSE format('its session was lost %s times while it was worked on', v_losses) END;
        v_at := site_move('job', p_job::text, 'failed', 'retries_exhausted', jsonb_build_object(
            'kind', v_job.kind, 'error', v_error, 'error_code', 'retries_exhausted'), p_job);
        UPDATE job SET ended_at = v_at, losses = v_losses, error_code = 'retries_exhausted', error_message = v_error
        WHERE id = p_job;
        PERFORM count_end(v_job.kind, 'failed');
    END IF;
END $$;

-- Mark every session lost whose lease ran out; returns how many. The site's own row remembers when somebody last looked
-- (heartbeat_at) and until when nobody is expired (lease_until): a gap means that the database, or all observers, were
-- away, and then nobody could renew or nobody was watching.
CREATE OR REPLACE FUNCTION mark_lost() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_site session%ROWTYPE;
    v_id uuid;
    v_count integer := 0;
BEGIN
    PERFORM settle_job_commands();
    SELECT * INTO v_site FROM session WHERE id = site_session();
    IF v_site.heartbeat_at > v_now + interval '1 second' THEN  -- the clock was set back: leases of then would never end
        UPDATE session SET lease_until = v_now + lease_length() WHERE id IN (
            SELECT id FROM session WHERE state IN ('', 'starting', 'online') AND lease_until > v_now + lease_length()
            AND id <> site_session() FOR UPDATE SKIP LOCKED);
        PERFORM begin_watch(v_now);
        RETURN 0;
    ELSIF v_site.heartbeat_at IS NULL OR v_now - v_site.heartbeat_at > lease_length() / 2 THEN
        PERFORM begin_watch(v_now);
        RETURN 0;
    END IF;
    UPDATE session SET heartbeat_at = v_now
    WHERE id = (SELECT id FROM session WHERE id = site_session() FOR UPDATE SKIP LOCKED);
    IF v_now < greatest(v_site.lease_until, pg_postmaster_start_time() + lease_length()) THEN
        RETURN 0;
    END IF;
    FOR v_id IN SELECT id FROM session WHERE state IN ('', 'starting', 'online') AND lease_until < v_now
                ORDER BY id FOR UPDATE SKIP LOCKED LOOP
        v_count := v_count + lose_session(v_id, 'lease_expired')::integer;
    END LOOP;
    RETURN v_count;
END $$;

CREATE OR REPLACE FUNCTION begin_watch(p_now timestamptz) RETURNS void
LANGUAGE sql SET search_path = public, pg_temp AS $$
    INSERT INTO session (id, prover, state, state_at, times, detail, moved_seq, host, machine, version, head_seq, started_at,
                         heartbeat_at, lease_until)
    VALUES (site_session(), 'site', 'online', p_now, '{}', '{}', 0, '', '', '', 0, p_now, p_now, p_now + lease_length())
    ON CONFLICT (id) DO UPDATE SET heartbeat_at = EXCLUDED.heartbeat_at, lease_until = EXCLUDED.lease_until
$$;

-- A prover that starts again on the same host knows that its former process is dead: no need to wait for the lease.
CREATE OR REPLACE FUNCTION supersede_session(p_session uuid) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$ SELECT lose_session(p_session, 'superseded') $$;

REVOKE ALL ON FUNCTION lock_held FROM PUBLIC;
REVOKE ALL ON FUNCTION lose_session FROM PUBLIC;
REVOKE ALL ON FUNCTION was_worked_on FROM PUBLIC;
REVOKE ALL ON FUNCTION times_given_back FROM PUBLIC;
REVOKE ALL ON FUNCTION give_back_job FROM PUBLIC;
REVOKE ALL ON FUNCTION begin_watch FROM PUBLIC;
REVOKE ALL ON FUNCTION mark_lost FROM PUBLIC;
REVOKE ALL ON FUNCTION supersede_session FROM PUBLIC;
GRANT EXECUTE ON FUNCTION mark_lost TO cuzk_web, cuzk_prover;
GRANT EXECUTE ON FUNCTION supersede_session TO cuzk_prover;

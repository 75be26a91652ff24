-- What a person asks of a prover: a row, an event, and a wake-up. The prover that has the target executes and answers;
-- a job that it gives back is cancelled here.
-- The actions are those of prover.states.Action.
-- Raises no_data_found (P0002) when the target is unknown and invalid_parameter_value (22023) for an unknown action.
CREATE OR REPLACE FUNCTION request_command(
    p_action text, p_target text, p_user_id bigint, p_user_name text, p_arguments jsonb DEFAULT '{}'
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_prover text;
    v_id uuid := gen_random_uuid();
    v_at timestamptz := clock_timestamp();
    v_detail jsonb := jsonb_build_object('action', p_action, 'target', p_target, 'by', p_user_name);
BEGIN
    IF p_action IN ('pause', 'resume', 'drain', 'disable', 'enable', 'restart') THEN
        SELECT prover INTO v_prover FROM worker WHERE id = p_target;
    ELSIF p_action = 'cancel' THEN
        PERFORM lock_site();
        SELECT s.prover INTO v_prover FROM job j JOIN session s ON s.id = j.session_id
        WHERE j.id = p_target::uuid AND j.ended_at IS NULL FOR UPDATE OF j;
    ELSE
        RAISE EXCEPTION 'unknown action %', p_action USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v_prover IS NULL THEN
        RAISE EXCEPTION 'nobody to % %', p_action, p_target USING ERRCODE = 'no_data_found';
    END IF;
    INSERT INTO command (id, action, target, prover, arguments, state, state_at, times, detail, moved_by, moved_seq,
                         requested_by_id, requested_by_name, requested_at)
    VALUES (v_id, p_action, p_target, v_prover, p_arguments, 'pending', v_at,
            jsonb_build_object('pending', to_us(v_at)), v_detail, site_session(), 0, p_user_id, p_user_name, v_at);
    UPDATE command SET moved_seq = site_event(v_at, 'command', v_id::text, '', 'pending', NULL, NULL, NULL, NULL, NULL, v_detail)
    WHERE id = v_id;
    PERFORM pg_notify('cuzk_work', '');
    RETURN v_id;
END $$;

-- Cancel a job: at once when nobody holds it ('cancelled'), else by a command to its prover ('requested'); 'ended' when
-- there is nothing to cancel. The row of the job stays locked meanwhile, so that a job that is given back finds the
-- command, or this finds the job given back. Raises no_data_found for an unknown job.
CREATE OR REPLACE FUNCTION cancel_job(p_job uuid, p_user_id bigint, p_user_name text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_job job%ROWTYPE;
    v_at timestamptz;
BEGIN
    PERFORM lock_site();
    SELECT * INTO v_job FROM job WHERE id = p_job FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no job %', p_job USING ERRCODE = 'no_data_found';
    ELSIF v_job.state IN ('done', 'failed', 'cancelled') THEN
        RETURN 'ended';
    ELSIF v_job.session_id IS NOT NULL THEN
        PERFORM request_command('cancel', p_job::text, p_user_id, p_user_name);
        RETURN 'requested';
    END IF;
    PERFORM end_cancelled(p_job, p_user_name);
    RETURN 'cancelled';
END $$;

-- The end of a job that nobody holds; and the answer to who wished it of a prover that has not executed it.
CREATE OR REPLACE FUNCTION end_cancelled(p_job uuid, p_by text) RETURNS void
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_kind text;
    v_at timestamptz;
BEGIN
    SELECT kind INTO STRICT v_kind FROM job WHERE id = p_job;
    v_at := site_move('job', p_job::text, 'cancelled', 'cancelled', jsonb_build_object('by', p_by, 'kind', v_kind), p_job);
    UPDATE job SET ended_at = v_at WHERE id = p_job;
    PERFORM count_end(v_kind, 'cancelled');
    PERFORM answer_cancels(p_job, 'done', 'cancelled once its prover held it no more');
END $$;

CREATE OR REPLACE FUNCTION answer_cancels(p_job uuid, p_state text, p_outcome text) RETURNS void
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_id uuid;
    v_at timestamptz;
BEGIN
    FOR v_id IN SELECT id FROM command WHERE action = 'cancel' AND target = p_job::text AND state IN ('pending', 'taken')
                ORDER BY requested_at FOR UPDATE LOOP
        v_at := site_move('command', v_id::text, p_state, NULL, jsonb_build_object('outcome', p_outcome));
        UPDATE command SET outcome = p_outcome, answered_at = v_at WHERE id = v_id;
    END LOOP;
END $$;

-- Who wished that a job be cancelled, and has no answer; NULL when nobody. A job that goes back to the queue ends by it.
CREATE OR REPLACE FUNCTION cancel_wished_by(p_job uuid) RETURNS text
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT requested_by_name FROM command
    WHERE action = 'cancel' AND target = p_job::text AND state IN ('pending', 'taken') ORDER BY requested_at LIMIT 1
$$;

-- Wishes to cancel that no prover will execute: it gave the job back before it heard of them, or its session ended
-- between the job's end and its answer. Whoever looks settles them; returns how many jobs had such. A job that somebody
-- else has in hand is left to the next look: whoever waited for it would keep all others from the site, heartbeats too.
CREATE OR REPLACE FUNCTION settle_cancels() RETURNS integer
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_id uuid;
    v_job job%ROWTYPE;
    v_by text;
    v_count integer := 0;
BEGIN
    FOR v_id IN
        SELECT DISTINCT j.id FROM command c JOIN job j ON j.id = CASE c.action WHEN 'cancel' THEN c.target::uuid END
        LEFT JOIN session s ON s.id = j.session_id
        WHERE c.state IN ('pending', 'taken')
            AND (j.session_id IS NULL OR j.ended_at IS NOT NULL AND s.state NOT IN ('', 'starting', 'online'))
        ORDER BY j.id
    LOOP
        PERFORM lock_site();
        SELECT * INTO v_job FROM job WHERE id = v_id FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            CONTINUE;
        END IF;
        v_by := cancel_wished_by(v_id);
        IF v_by IS NULL THEN  -- somebody else was quicker
            CONTINUE;
        ELSIF v_job.state = 'cancelled' THEN
            PERFORM answer_cancels(v_id, 'done', 'cancelled');
        ELSIF v_job.ended_at IS NOT NULL THEN
            PERFORM answer_cancels(v_id, 'refused', 'it had ended before: ' || v_job.state);
        ELSIF v_job.session_id IS NULL THEN
            PERFORM end_cancelled(v_id, v_by);
        ELSE
            CONTINUE;  -- a prover took it
        END IF;
        v_count := v_count + 1;
    END LOOP;
    RETURN v_count;
END $$;

REVOKE ALL ON FUNCTION request_command FROM PUBLIC;
REVOKE ALL ON FUNCTION cancel_job FROM PUBLIC;
REVOKE ALL ON FUNCTION end_cancelled FROM PUBLIC;
REVOKE ALL ON FUNCTION answer_cancels FROM PUBLIC;
REVOKE ALL ON FUNCTION cancel_wished_by FROM PUBLIC;
REVOKE ALL ON FUNCTION settle_cancels FROM PUBLIC;
GRANT EXECUTE ON FUNCTION request_command TO cuzk_web;
GRANT EXECUTE ON FUNCTION cancel_job TO cuzk_web;

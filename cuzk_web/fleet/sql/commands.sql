-- What a person asks of a prover: a row, an event, and a wake-up. The prover that has the target executes and answers.
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
        SELECT s.prover INTO v_prover FROM job j JOIN session s ON s.id = j.session_id WHERE j.id = p_target::uuid;
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
-- there is nothing to cancel. Raises no_data_found for an unknown job.
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
    v_at := site_move(
        'job', p_job::text, 'cancelled', 'cancelled', jsonb_build_object('by', p_user_name, 'kind', v_job.kind), p_job);
    UPDATE job SET ended_at = v_at WHERE id = p_job;
    PERFORM count_end(v_job.kind, 'cancelled');
    RETURN 'cancelled';
END $$;

REVOKE ALL ON FUNCTION request_command FROM PUBLIC;
REVOKE ALL ON FUNCTION cancel_job FROM PUBLIC;
GRANT EXECUTE ON FUNCTION request_command TO cuzk_web;
GRANT EXECUTE ON FUNCTION cancel_job TO cuzk_web;

-- What a person asks for: a row, an event, and a wake-up. The actions, and what each is of, are prover.states.ACTIONS.
--
-- A command to a worker, a key or a prover is for the prover that has it, which executes and answers it. One to a job is
-- for the session that holds the job; when nobody does, the database executes it at once.

DROP FUNCTION IF EXISTS request_command(text, text, bigint, text, jsonb);
DROP FUNCTION IF EXISTS settle_cancels();
DROP FUNCTION IF EXISTS answer_cancels(uuid, text, text);
DROP FUNCTION IF EXISTS end_cancelled(uuid, text);

CREATE OR REPLACE FUNCTION actions_of(p_kind text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE p_kind
        WHEN 'worker' THEN ARRAY['pause', 'resume', 'drain', 'disable', 'enable', 'restart']
        WHEN 'job' THEN ARRAY['cancel', 'hold', 'release', 'priority', 'deadline', 'retry']
        WHEN 'key' THEN ARRAY['preload', 'evict', 'pin', 'unpin']
        WHEN 'prover' THEN ARRAY['drain', 'accept']
        ELSE '{}' END
$$;

-- Raises invalid_parameter_value (22023) for an unknown action.
CREATE OR REPLACE FUNCTION check_action(p_kind text, p_action text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = public, pg_temp AS $$
BEGIN
    IF p_action IS NULL OR p_action <> ALL (actions_of(p_kind)) THEN
        RAISE EXCEPTION 'unknown action % of a %', p_action, p_kind USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- The prover that executes a command of a worker, a key (prover:NAME) or a prover; NULL when there is none.
CREATE OR REPLACE FUNCTION prover_of(p_kind text, p_target text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = public, pg_temp AS $$
DECLARE
    v_prover text := split_part(p_target, ':', 1);
BEGIN
    IF p_kind = 'worker' THEN
        RETURN (SELECT prover FROM worker WHERE id = p_target);
    END IF;
    RETURN (SELECT prover FROM session WHERE prover = v_prover AND id <> site_session() LIMIT 1);
END $$;

-- A command row, pending, with its event.
CREATE OR REPLACE FUNCTION write_command(
    p_kind text, p_action text, p_target text, p_prover text, p_arguments jsonb, p_user_id bigint, p_user_name text
) RETURNS uuid LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_id uuid := gen_random_uuid();
    v_at timestamptz := clock_timestamp();
    v_detail jsonb := jsonb_build_object('action', p_action, 'target', p_target, 'by', p_user_name, 'kind', p_kind);
BEGIN
    IF p_arguments <> '{}' THEN
        v_detail := v_detail || jsonb_build_object('arguments', p_arguments);
    END IF;
    INSERT INTO command (id, target_kind, action, target, prover, arguments, state, state_at, times, detail, moved_by,
                         moved_seq, requested_by_id, requested_by_name, requested_at)
    VALUES (v_id, p_kind, p_action, p_target, p_prover, p_arguments, 'pending', v_at,
            jsonb_build_object('pending', to_us(v_at)), v_detail, site_session(), 0, p_user_id, p_user_name, v_at);
    UPDATE command SET moved_seq = site_event(v_at, 'command', v_id::text, '', 'pending', NULL, NULL, NULL, NULL, NULL, v_detail)
    WHERE id = v_id;
    PERFORM pg_notify('cuzk_work', '');
    RETURN v_id;
END $$;

CREATE OR REPLACE FUNCTION answer_command(p_id uuid, p_state text, p_outcome text) RETURNS void
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_at timestamptz;
BEGIN
    v_at := site_move('command', p_id::text, p_state, NULL, jsonb_build_object('outcome', p_outcome));
    UPDATE command SET outcome = p_outcome, answered_at = v_at WHERE id = p_id;
END $$;

-- A command to a worker, a key, a prover; or to a job, as request_job. Without p_kind: cancel is of a job, the others of
-- a worker. Raises no_data_found (P0002) when the target is unknown and invalid_parameter_value for an unknown action.
CREATE OR REPLACE FUNCTION request_command(
    p_action text, p_target text, p_user_id bigint, p_user_name text, p_arguments jsonb DEFAULT '{}',
    p_kind text DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_kind text := coalesce(p_kind, CASE p_action WHEN 'cancel' THEN 'job' ELSE 'worker' END);
    v_id uuid;
    v_prover text;
BEGIN
    PERFORM check_action(v_kind, p_action);
    IF v_kind = 'job' THEN
        v_id := command FROM request_job(p_action, p_target::uuid, p_user_id, p_user_name, p_arguments);
    ELSE
        v_prover := prover_of(v_kind, p_target);
        IF v_prover IS NOT NULL THEN
            v_id := write_command(v_kind, p_action, p_target, v_prover, p_arguments, p_user_id, p_user_name);
        END IF;
    END IF;
    IF v_id IS NULL THEN
        RAISE EXCEPTION 'nobody to % %', p_action, p_target USING ERRCODE = 'no_data_found';
    END IF;
    RETURN v_id;
END $$;

-- -- jobs -----------------------------------------------------------------------------------------------------------------

-- As prover.states.job_refusal.
CREATE OR REPLACE FUNCTION job_refusal(p_action text, p_state text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_state = ANY (CASE p_action
        WHEN 'hold' THEN ARRAY['queued', 'loading', 'running']
        WHEN 'release' THEN ARRAY['held']
        WHEN 'retry' THEN ARRAY['failed', 'cancelled']
        ELSE ARRAY['queued', 'held', 'loading', 'running', 'assembling', 'verifying'] END)
    THEN NULL ELSE 'it is ' || p_state END
$$;

-- Raises invalid_parameter_value for arguments that the action does not take.
CREATE OR REPLACE FUNCTION check_job_arguments(p_action text, p_arguments jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = public, pg_temp AS $$
DECLARE
    v_value jsonb;
BEGIN
    IF p_action = 'priority' THEN
        v_value := p_arguments->'priority';
        IF v_value IS NULL OR v_value NOT IN ('1', '2', '3', '4') THEN
            RAISE EXCEPTION 'priority: 1 (low) to 4 (critical), not %', v_value USING ERRCODE = 'invalid_parameter_value';
        END IF;
    ELSIF p_action = 'deadline' THEN
        v_value := p_arguments->'deadline_us';
        IF v_value IS NULL OR v_value <> 'null' AND (jsonb_typeof(v_value) <> 'number'
                OR v_value::numeric NOT BETWEEN 0 AND 253402300799000000 OR v_value::numeric <> trunc(v_value::numeric)) THEN
            RAISE EXCEPTION 'deadline_us: microseconds since 1970, at most those of 9999, or null, not %', v_value
            USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END IF;
END $$;

-- Ask for an action of a job. state is that of the command: 'done' (nobody had the job, so it was executed at once),
-- 'pending' (whoever holds the job was asked), or 'refused' for the reason in outcome; then there is no command.
-- retried_as is the new job of a retry. The row of the job stays locked meanwhile, so that a job that is given back finds
-- the command, or this finds the job given back. Raises no_data_found for an unknown job, invalid_parameter_value for an
-- unknown action or arguments that it does not take.
CREATE OR REPLACE FUNCTION request_job(
    p_action text, p_job uuid, p_user_id bigint, p_user_name text, p_arguments jsonb DEFAULT '{}',
    OUT command uuid, OUT state text, OUT outcome text, OUT retried_as uuid
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_job job%ROWTYPE;
    v_prover text;
BEGIN
    PERFORM check_action('job', p_action);
    PERFORM check_job_arguments(p_action, p_arguments);
    IF p_action = 'retry' THEN  -- as submit_job: its lock comes before the site's
        PERFORM pg_advisory_xact_lock(hashtextextended(j.request_id, 0)) FROM job j WHERE j.id = p_job;
    END IF;
    SELECT * INTO v_job FROM job j WHERE j.id = p_job FOR UPDATE;  -- before the site: who has that waits for no row
    PERFORM lock_site();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no job %', p_job USING ERRCODE = 'no_data_found';
    END IF;
    SELECT s.prover INTO v_prover FROM session s WHERE s.id = v_job.session_id AND v_job.ended_at IS NULL;
    state := 'refused';
    outcome := coalesce(job_refusal(p_action, v_job.state), deadline_refusal(p_action, p_arguments));
    IF outcome IS NOT NULL THEN
        RETURN;
    ELSIF v_prover IS NOT NULL THEN
        state := 'pending';
        command := write_command('job', p_action, p_job::text, v_prover, p_arguments, p_user_id, p_user_name);
        RETURN;
    END IF;
    SELECT * INTO state, outcome, retried_as FROM act_on_job(p_action, v_job, p_arguments, p_user_name);
    IF state = 'done' THEN
        command := write_command('job', p_action, p_job::text, 'site', p_arguments, p_user_id, p_user_name);
        PERFORM answer_command(command, state, outcome);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION deadline_refusal(p_action text, p_arguments jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT CASE WHEN p_action = 'deadline' AND from_us((p_arguments->>'deadline_us')::numeric::bigint) < clock_timestamp()
        THEN 'that deadline is over' END
$$;

-- Execute an action of a job that nobody holds, and that job_refusal does not refuse.
CREATE OR REPLACE FUNCTION act_on_job(
    p_action text, p_job job, p_arguments jsonb, p_by text, OUT state text, OUT outcome text, OUT retried_as uuid
) LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_by jsonb := jsonb_build_object('by', p_by);
BEGIN
    state := 'done';
    CASE p_action
        WHEN 'cancel' THEN
            PERFORM end_cancelled(p_job.id, p_by);
            outcome := 'cancelled';
        WHEN 'hold' THEN
            PERFORM site_move('job', p_job.id::text, 'held', 'held', v_by, p_job.id);
            outcome := 'held: no prover takes it until it is released';
        WHEN 'release' THEN
            PERFORM site_move('job', p_job.id::text, 'queued', 'released', v_by, p_job.id);
            PERFORM pg_notify('cuzk_work', '');
            outcome := 'queued again';
        WHEN 'priority' THEN
            UPDATE job SET priority = (p_arguments->>'priority')::numeric::integer WHERE id = p_job.id;
            PERFORM site_move('job', p_job.id::text, p_job.state, 'priority',
                              v_by || jsonb_build_object('priority', p_arguments->'priority'), p_job.id);
            outcome := 'its place in the queue is changed';
        WHEN 'deadline' THEN
            UPDATE job SET deadline = from_us((p_arguments->>'deadline_us')::numeric::bigint) WHERE id = p_job.id;
            PERFORM site_move('job', p_job.id::text, p_job.state, 'deadline',
                              v_by || jsonb_build_object('deadline_us', p_arguments->'deadline_us'), p_job.id);
            outcome := 'its place in the queue is changed';
        WHEN 'retry' THEN
            SELECT * INTO state, outcome, retried_as FROM retry_job(p_job, p_by);
    END CASE;
END $$;

-- A new job of the same request. Proofs of its partitions that exist are kept, unless they may be what was wrong.
CREATE OR REPLACE FUNCTION retry_job(p_job job, p_by text, OUT state text, OUT outcome text, OUT retried_as uuid)
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_request bytea;
    v_made record;
    v_kept integer := 0;
BEGIN
    state := 'refused';
    SELECT request INTO v_request FROM job_input WHERE job_id = p_job.id;
    IF NOT FOUND THEN
        outcome := 'its request is not kept any more';
        RETURN;
    END IF;
    SELECT * INTO v_made FROM submit_job(
        p_job.request_id, p_job.request_digest, p_job.kind, p_job.sector_size, p_job.registered_proof, p_job.priority,
        CASE WHEN p_job.deadline > clock_timestamp() THEN p_job.deadline END, p_job.miner_id, p_job.sector_number,
        p_job.partition_index, p_job.partitions, p_by, v_request, p_job.id);
    IF v_made.outcome <> 'created' THEN
        outcome := format('job %s has its request id and is %s', v_made.number, v_made.state);
        RETURN;
    END IF;
    IF p_job.error_code IS DISTINCT FROM 'proof_refused' THEN
        INSERT INTO proof (job_id, partition, proof, attempt_no, session_id, verified_at)
        SELECT v_made.job, partition, proof, 0, session_id, verified_at FROM proof WHERE job_id = p_job.id;
        GET DIAGNOSTICS v_kept = ROW_COUNT;
        UPDATE job SET partitions_done = v_kept WHERE id = v_made.job;
    END IF;
    state := 'done';
    outcome := format('retried as job %s, with %s of %s proofs', v_made.number, v_kept, p_job.partitions);
    retried_as := v_made.job;
END $$;

-- As request_job, in the words of earlier versions: 'cancelled' (nobody held it), 'requested', 'ended'.
CREATE OR REPLACE FUNCTION cancel_job(p_job uuid, p_user_id bigint, p_user_name text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_state text;
BEGIN
    v_state := state FROM request_job('cancel', p_job, p_user_id, p_user_name);
    RETURN CASE v_state WHEN 'done' THEN 'cancelled' WHEN 'pending' THEN 'requested' ELSE 'ended' END;
END $$;

-- The end of a job that nobody holds; and the answer to who wished it of a prover that has not executed it.
CREATE OR REPLACE FUNCTION end_cancelled(p_job uuid, p_by text, p_reason text DEFAULT 'cancelled') RETURNS void
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_kind text;
    v_at timestamptz;
BEGIN
    SELECT kind INTO STRICT v_kind FROM job WHERE id = p_job;
    v_at := site_move('job', p_job::text, 'cancelled', p_reason, jsonb_build_object('by', p_by, 'kind', v_kind), p_job);
    UPDATE job SET ended_at = v_at WHERE id = p_job;
    PERFORM count_end(v_kind, 'cancelled');
    PERFORM answer_command(id, 'done', 'cancelled once its prover held it no more') FROM (
        SELECT id FROM command WHERE action = 'cancel' AND target = p_job::text AND state IN ('pending', 'taken')
        ORDER BY requested_at FOR UPDATE SKIP LOCKED) AS open;  -- the others are settled at a later look
END $$;

-- Who wished that a job be cancelled, and has no answer; NULL when nobody. A job that goes back to the queue ends by it.
CREATE OR REPLACE FUNCTION cancel_wished_by(p_job uuid) RETURNS text
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT requested_by_name FROM command
    WHERE action = 'cancel' AND target = p_job::text AND state IN ('pending', 'taken') ORDER BY requested_at LIMIT 1
$$;

-- Commands of jobs that no prover will execute: it gave the job back before it heard of them, or its session ended
-- between the job's end and its answer. Whoever looks settles them; returns how many jobs had such. A job that somebody
-- else has in hand is left to the next look: whoever waited for it would keep all others from the site, heartbeats too.
CREATE OR REPLACE FUNCTION settle_job_commands() RETURNS integer
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_id uuid;
    v_command record;
    v_count integer := 0;
BEGIN
    FOR v_id IN
        SELECT DISTINCT j.id FROM command c JOIN job j ON j.id = CASE c.target_kind WHEN 'job' THEN c.target::uuid END
        LEFT JOIN session s ON s.id = j.session_id
        WHERE c.state IN ('pending', 'taken')
            AND (j.session_id IS NULL OR j.ended_at IS NOT NULL AND s.state NOT IN ('', 'starting', 'online'))
        ORDER BY j.id
    LOOP
        PERFORM lock_site();
        PERFORM FROM job WHERE id = v_id FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            CONTINUE;
        END IF;
        FOR v_command IN SELECT id FROM command
                WHERE target_kind = 'job' AND target = v_id::text AND state IN ('pending', 'taken')
                ORDER BY action <> 'cancel', requested_at LOOP
            PERFORM settle_job_command(v_command.id, v_id);
        END LOOP;
        v_count := v_count + 1;
    END LOOP;
    RETURN v_count;
END $$;

-- Execute one, or say why not; nothing when a prover took the job, or somebody else was quicker.
CREATE OR REPLACE FUNCTION settle_job_command(p_command uuid, p_job uuid) RETURNS void
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    v_command command%ROWTYPE;
    v_job job%ROWTYPE;
    v_refusal text;
    v_done record;
BEGIN
    SELECT * INTO v_command FROM command WHERE id = p_command FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN  -- its prover answers it now: at the next look
        RETURN;
    END IF;
    SELECT * INTO STRICT v_job FROM job WHERE id = p_job;
    v_refusal := job_refusal(v_command.action, v_job.state);
    IF v_command.state NOT IN ('pending', 'taken') OR v_job.session_id IS NOT NULL AND v_job.ended_at IS NULL THEN
        RETURN;
    ELSIF v_command.action = 'cancel' AND v_job.state = 'cancelled' THEN
        PERFORM answer_command(p_command, 'done', 'cancelled');
    ELSIF v_refusal IS NOT NULL THEN
        PERFORM answer_command(p_command, 'refused', CASE WHEN v_job.ended_at IS NULL THEN v_refusal
            ELSE 'it had ended before: ' || v_job.state END);
    ELSE
        SELECT * INTO v_done FROM act_on_job(v_command.action, v_job, v_command.arguments, v_command.requested_by_name);
        IF v_command.action <> 'cancel' THEN  -- end_cancelled answers those
            PERFORM answer_command(p_command, v_done.state, v_done.outcome);
        END IF;
    END IF;
END $$;

REVOKE ALL ON FUNCTION actions_of FROM PUBLIC;
REVOKE ALL ON FUNCTION check_action FROM PUBLIC;
REVOKE ALL ON FUNCTION prover_of FROM PUBLIC;
REVOKE ALL ON FUNCTION write_command FROM PUBLIC;
REVOKE ALL ON FUNCTION answer_command FROM PUBLIC;
REVOKE ALL ON FUNCTION request_command FROM PUBLIC;
REVOKE ALL ON FUNCTION job_refusal FROM PUBLIC;
REVOKE ALL ON FUNCTION check_job_arguments FROM PUBLIC;
REVOKE ALL ON FUNCTION request_job FROM PUBLIC;
REVOKE ALL ON FUNCTION deadline_refusal FROM PUBLIC;
REVOKE ALL ON FUNCTION act_on_job FROM PUBLIC;
REVOKE ALL ON FUNCTION retry_job FROM PUBLIC;
REVOKE ALL ON FUNCTION cancel_job FROM PUBLIC;
REVOKE ALL ON FUNCTION end_cancelled FROM PUBLIC;
REVOKE ALL ON FUNCTION cancel_wished_by FROM PUBLIC;
REVOKE ALL ON FUNCTION settle_job_commands FROM PUBLIC;
REVOKE ALL ON FUNCTION settle_job_command FROM PUBLIC;
GRANT EXECUTE ON FUNCTION request_command TO cuzk_web, cuzk_prover;
GRANT EXECUTE ON FUNCTION request_job TO cuzk_web, cuzk_prover;
GRANT EXECUTE ON FUNCTION cancel_job TO cuzk_web;

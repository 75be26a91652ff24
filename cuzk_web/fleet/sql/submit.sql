-- The one way in: the form, the command line and the API all submit by this function.
--
-- outcome: 'created'; 'existing', when a live or completed job has this request id and the same content; 'conflict', when
-- it has another content (digest is then that job's). After a failure or a cancel the same id makes a new job.
CREATE SEQUENCE job_number;

CREATE FUNCTION submit_job(
    p_request_id text, p_digest bytea, p_kind text, p_sector_size bigint, p_registered_proof integer, p_priority integer,
    p_deadline timestamptz, p_miner_id bigint, p_sector_number bigint, p_partition_index integer, p_partitions integer,
    p_submitted_by text, p_request bytea, p_retry_of uuid DEFAULT NULL,
    OUT outcome text, OUT job uuid, OUT number bigint, OUT state text, OUT digest bytea
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    v_at timestamptz;
    v_detail jsonb;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_request_id, 0));
    SELECT j.id, j.number, j.state, j.request_digest INTO job, number, state, digest
    FROM job j WHERE j.request_id = p_request_id AND j.state NOT IN ('failed', 'cancelled');
    IF FOUND THEN
        outcome := CASE WHEN digest = p_digest THEN 'existing' ELSE 'conflict' END;
        RETURN;
    END IF;
    outcome := 'created';
    job := gen_random_uuid();
    number := nextval('job_number');
    state := 'queued';
    digest := p_digest;
    v_at := clock_timestamp();
    v_detail := jsonb_build_object(
        'request_id', p_request_id, 'kind', p_kind, 'number', number, 'sector_size', p_sector_size, 'priority', p_priority,
        'deadline_us', to_us(p_deadline), 'partitions', p_partitions, 'partition_index', p_partition_index,
        'miner_id', p_miner_id, 'sector_number', p_sector_number, 'submitted_by', p_submitted_by, 'retry_of', p_retry_of);
    INSERT INTO job (id, number, request_id, request_digest, kind, sector_size, registered_proof, priority, deadline,
                     miner_id, sector_number, partition_index, partitions, partitions_done, state, state_at, times,
                     detail, moved_by, moved_seq, submitted_by, submitted_at, lease_epoch, losses, retry_of_id, timings)
    VALUES (job, number, p_request_id, p_digest, p_kind, p_sector_size, p_registered_proof, p_priority, p_deadline,
            p_miner_id, p_sector_number, p_partition_index, p_partitions, 0, 'queued', v_at,
            jsonb_build_object('queued', to_us(v_at)), v_detail, site_session(), 0, p_submitted_by, v_at, 0, 0,
            p_retry_of, '{}');
    INSERT INTO job_input (job_id, request) VALUES (job, p_request);
    UPDATE job j SET moved_seq = site_event(v_at, 'job', j.id::text, '', 'queued', j.id, NULL, NULL, NULL, NULL, v_detail)
    WHERE j.id = submit_job.job;
    PERFORM pg_notify('cuzk_work', '');
END $$;

REVOKE ALL ON FUNCTION submit_job FROM PUBLIC;
GRANT EXECUTE ON FUNCTION submit_job TO cuzk_web, cuzk_prover;

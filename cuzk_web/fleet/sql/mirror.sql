-- Every state table in one shape, the fields of prover.states.View. A row that was never moved is not there.
CREATE VIEW mirror AS
    SELECT 'session' AS entity, id::text AS id, state, times, detail, reason, moved_by AS session, moved_seq AS seq,
           NULL::uuid AS job, NULL::integer AS partition, NULL::integer AS attempt_no, NULL::text AS worker
    FROM session WHERE moved_by IS NOT NULL
UNION ALL
    SELECT 'device', id, state, times, detail, reason, moved_by, moved_seq, NULL, NULL, NULL, NULL
    FROM device WHERE moved_by IS NOT NULL
UNION ALL
    SELECT 'worker', id, state, times, detail, reason, moved_by, moved_seq, NULL, NULL, NULL, id
    FROM worker WHERE moved_by IS NOT NULL
UNION ALL
    SELECT 'admin', id, admin, admin_times, admin_detail, admin_reason, admin_moved_by, admin_moved_seq,
           NULL, NULL, NULL, id
    FROM worker WHERE admin_moved_by IS NOT NULL
UNION ALL
    SELECT 'holding', id, state, times, detail, reason, moved_by, moved_seq, NULL, NULL, NULL, NULL
    FROM holding WHERE moved_by IS NOT NULL
UNION ALL
    SELECT 'job', id::text, state, times, detail, reason, moved_by, moved_seq, id, NULL, NULL, NULL
    FROM job WHERE moved_by IS NOT NULL
UNION ALL
    SELECT 'attempt', id, state, times, detail, reason, moved_by, moved_seq, job_id, partition, attempt_no, worker_id
    FROM attempt WHERE moved_by IS NOT NULL
UNION ALL
    SELECT 'command', id::text, state, times, detail, reason, moved_by, moved_seq, NULL, NULL, NULL, NULL
    FROM command WHERE moved_by IS NOT NULL;

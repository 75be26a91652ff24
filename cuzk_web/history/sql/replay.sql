-- Where a session's log stood at a moment: the highest number between p_low and p_high up to which nothing is later. A
-- session's rows are in the order of their times, so some twenty of them are looked at, however many there are.
CREATE OR REPLACE FUNCTION transition_head(p_session uuid, p_low bigint, p_high bigint, p_at timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = public, pg_temp AS $$
DECLARE
    v_low bigint := p_low;
    v_high bigint := p_high;
    v_middle bigint;
    v_seq bigint;
    v_at timestamptz;
BEGIN
    WHILE v_low < v_high LOOP
        v_middle := v_low + (v_high - v_low + 1) / 2;
        SELECT seq, at INTO v_seq, v_at FROM transition
            WHERE session_id = p_session AND seq >= v_middle AND seq <= v_high ORDER BY seq LIMIT 1;
        IF v_seq IS NULL OR v_at > p_at THEN
            v_high := v_middle - 1;
        ELSE
            v_low := v_seq;
        END IF;
    END LOOP;
    RETURN v_low;
END $$;

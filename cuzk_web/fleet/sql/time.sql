-- Times of the event log are whole microseconds since 1970; both directions are exact.
CREATE FUNCTION to_us(p_at timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT (extract(epoch FROM p_at) * 1000000)::bigint $$;

CREATE FUNCTION from_us(p_us bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT timestamptz 'epoch' + (p_us / 1000000) * interval '1 second' + (p_us % 1000000) * interval '1 microsecond'
$$;

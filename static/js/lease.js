// The database's lease_length(): after so long without a sign of life nothing is current, whatever was said last.

export const LEASE_MS = 12_000;

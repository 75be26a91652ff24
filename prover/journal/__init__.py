"""Everything that a prover shares with the database: `Journal`."""

"""cuzk's proving daemon: Filecoin's Groth16 proofs over BLS12-381, proved in JAX."""

__version__ = "0.1.0"

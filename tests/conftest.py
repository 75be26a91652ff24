"""JAX as the tests use it: 64-bit types and two CPU devices, configured once before any array exists."""

from prover import jaxconf

jaxconf.configure("cpu", cpu_devices=2)

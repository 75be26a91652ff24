"""The commands of `cuzk`, a module each. A module is light to import: JAX and the keys are loaded when it runs."""

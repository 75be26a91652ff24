#!/usr/bin/env bash
# The proofs of all four circuits on this machine's GPU, in under 5 minutes from a clone: makes build/gpu with the CUDA
# build of JAX unless PYTHON names an interpreter that has it. What there is no time for is said; keys and bases stay in
# bench/out, so a second run gets further. Exit status: 0 measured, 3 no GPU here, 1 a failure.
#   PYTHON=python3            the interpreter, as it is
#   CUZK_BENCH_SECONDS=290    for everything
#   CUZK_BENCH_PLATFORM=cpu   tries the script on WindowPoSt where there is no GPU: no figures of one
set -eu
cd "$(dirname "$0")/.."
if [ -z "${PYTHON:-}" ]; then
  PYTHON=python3
  if [ "${CUZK_BENCH_PLATFORM:-gpu}" = cpu ] || python3 -c \
    'import sys; from prover.stack.install import has_nvidia_gpu; sys.exit(not has_nvidia_gpu())'; then
    python3 prover/stack/install.py build/gpu requirements.lock requirements-cuda.lock >&2
    PYTHON=build/gpu/bin/python
  fi
fi
export CUZK_BENCH_SECONDS=$((${CUZK_BENCH_SECONDS:-290} - SECONDS))
exec "$PYTHON" -m bench.gpu "$@"

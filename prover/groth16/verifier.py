"""Verification by py-arkworks' pairing alone: it shares no code with the prover.

A proof (A, B, C) of the public inputs x_1..x_n is right when
e(A, B) = e(alpha, beta) * e(ic_0 + sum x_i ic_i, gamma) * e(C, delta).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from py_arkworks_bls12381 import GT, G1Point, G2Point, Scalar

from prover.groth16.errors import ProofMalformed, PublicInputsInvalid
from prover.groth16.keys import VerifyingKey
from prover.groth16.points import g1_point, g2_point
from prover.groth16.proof import Proof, split

R = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
#: a product by a scalar below this costs less alone than as a part of a multi-scalar multiplication
_SHORT_SCALAR = 1 << 32


class PreparedKey:
    """A verifying key with its points decoded and checked, and e(alpha, beta) computed."""

    def __init__(self, vk: VerifyingKey) -> None:
        """Raises KeyFileDamaged, naming the point, when one is not on its curve or not in the subgroup."""
        self.ic = [g1_point(bytes(point), f"ic[{i}]") for i, point in enumerate(vk.ic)]
        self._minus_gamma: G2Point = -g2_point(vk.gamma_g2, "gamma_g2")
        self._minus_delta: G2Point = -g2_point(vk.delta_g2, "delta_g2")
        alpha, beta = g1_point(vk.alpha_g1, "alpha_g1"), g2_point(vk.beta_g2, "beta_g2")
        g1_point(vk.beta_g1, "beta_g1")
        g1_point(vk.delta_g1, "delta_g1")
        self._alpha_beta: GT = GT.pairing(alpha, beta)

    def verify(self, inputs: Sequence[int], proof: bytes) -> bool:
        """Whether `proof` (192 bytes) proves `inputs` (canonical integers, the constant one left out).

        Raises ProofMalformed or PublicInputsInvalid for what is no proof and no list of inputs of this circuit.
        """
        self._check_inputs(inputs)
        points = Proof.parse(proof)
        accumulated = self._accumulate(inputs)
        product = GT.multi_pairing([points.a, accumulated, points.c], [points.b, self._minus_gamma, self._minus_delta])
        return bool(product == self._alpha_beta)

    def verify_partitions(self, inputs: Sequence[Sequence[int]], proofs: bytes) -> list[int]:
        """The numbers of the partitions whose proof is wrong: none when all of `proofs` (192 bytes each) are right."""
        parts = list(split(proofs))
        if len(parts) != len(inputs):
            raise ProofMalformed(f"{len(parts)} proofs for {len(inputs)} partitions", field="proof")
        return [i for i, (x, proof) in enumerate(zip(inputs, parts, strict=True)) if not self.verify(x, proof)]

    def _check_inputs(self, inputs: Sequence[int]) -> None:
        if len(inputs) != len(self.ic) - 1:
            raise PublicInputsInvalid(
                f"the key has {len(self.ic) - 1} inputs, not {len(inputs)}", field="public_inputs"
            )
        for i, value in enumerate(inputs):
            if not 0 <= value < R:
                raise PublicInputsInvalid("not a canonical field element", field=f"public_inputs[{i}]")

    def _accumulate(self, inputs: Sequence[int]) -> G1Point:
        """ic_0 + sum x_i ic_i. Equal inputs are summed first: a PoSt repeats its comm_r."""
        by_value: defaultdict[int, G1Point] = defaultdict(G1Point.identity)
        for value, point in zip(inputs, self.ic[1:], strict=True):
            by_value[value] += point
        total: G1Point = self.ic[0]
        for value, point in by_value.items():
            if value < _SHORT_SCALAR:
                total += point * Scalar(value)
        long = [value for value in by_value if value >= _SHORT_SCALAR]
        if not long:
            return total
        return total + G1Point.multiexp_unchecked([by_value[v] for v in long], [Scalar(v) for v in long])


def verify(vk: VerifyingKey | PreparedKey, inputs: Sequence[int], proof: bytes) -> bool:
    """See PreparedKey.verify; prepares the key when it is not prepared."""
    prepared = vk if isinstance(vk, PreparedKey) else PreparedKey(vk)
    return prepared.verify(inputs, proof)

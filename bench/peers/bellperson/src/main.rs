//! Proves a recorded circuit with bellperson and prints the times as JSON.
//!
//! usage: bellperson-peer CIRCUIT PARAMS PROOFS [setup]
//!
//! CIRCUIT is the dump that bench/peer.py writes (little-endian): u32 inputs, aux, rows, coefficients; for each of A, B, C
//! u32 terms, u32[rows + 1] row starts, u32[terms] columns, u16[terms] coefficient numbers; then 32 bytes a coefficient,
//! an input, an aux. With `setup` the time of generate_random_parameters is taken too.

use std::{env, fs, path::PathBuf, time::Instant};

use bellpepper_core::{Circuit, ConstraintSystem, LinearCombination, SynthesisError, Variable};
use bellperson::groth16::{
    create_proof, generate_random_parameters, prepare_verifying_key, verify_proof, Parameters,
};
use blstrs::{Bls12, Scalar};
use ff::{Field, PrimeField};

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        head
    }
    fn u32s(&mut self, n: usize) -> Vec<u32> {
        self.take(4 * n).chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
    }
    fn u16s(&mut self, n: usize) -> Vec<u16> {
        self.take(2 * n).chunks(2).map(|b| u16::from_le_bytes(b.try_into().unwrap())).collect()
    }
    fn scalars(&mut self, n: usize) -> Vec<Scalar> {
        self.take(32 * n).chunks(32).map(|b| Scalar::from_repr(b.try_into().unwrap()).unwrap()).collect()
    }
}

#[derive(Clone)]
struct Matrix {
    starts: Vec<u32>,
    columns: Vec<u32>,
    coefficients: Vec<u16>,
}

#[derive(Clone)]
struct Recorded {
    inputs: Vec<Scalar>,
    aux: Vec<Scalar>,
    coefficients: Vec<Scalar>,
    matrices: [Matrix; 3],
}

impl Recorded {
    fn read(bytes: &[u8]) -> Self {
        let mut reader = Reader(bytes);
        let sizes = reader.u32s(4);
        let (inputs, aux, rows, count) = (sizes[0] as usize, sizes[1] as usize, sizes[2] as usize, sizes[3] as usize);
        let matrices = std::array::from_fn(|_| {
            let terms = reader.u32s(1)[0] as usize;
            Matrix { starts: reader.u32s(rows + 1), columns: reader.u32s(terms), coefficients: reader.u16s(terms) }
        });
        let coefficients = reader.scalars(count);
        Recorded { inputs: reader.scalars(inputs), aux: reader.scalars(aux), coefficients, matrices }
    }
}

impl Circuit<Scalar> for Recorded {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let mut variables: Vec<Variable> = vec![CS::one()];
        for (i, value) in self.inputs.iter().enumerate().skip(1) {
            variables.push(cs.alloc_input(|| format!("i{i}"), || Ok(*value))?);
        }
        for (i, value) in self.aux.iter().enumerate() {
            variables.push(cs.alloc(|| format!("a{i}"), || Ok(*value))?);
        }
        let combination = |m: &Matrix, row: usize| {
            let mut sum = LinearCombination::<Scalar>::zero();
            for k in m.starts[row] as usize..m.starts[row + 1] as usize {
                sum = sum + (self.coefficients[m.coefficients[k] as usize], variables[m.columns[k] as usize]);
            }
            sum
        };
        for row in 0..self.matrices[0].starts.len() - 1 {
            cs.enforce(
                || format!("r{row}"),
                |_| combination(&self.matrices[0], row),
                |_| combination(&self.matrices[1], row),
                |_| combination(&self.matrices[2], row),
            );
        }
        Ok(())
    }
}

fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let value = work();
    (start.elapsed().as_secs_f64(), value)
}

/// The most memory that this process ever had resident, in MiB; the mapped key and the recorded circuit count.
fn peak_mib() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let circuit = Recorded::read(&fs::read(&arguments[1]).expect("CIRCUIT"));
    let path = PathBuf::from(&arguments[2]);
    let proofs: usize = arguments[3].parse().expect("PROOFS");
    let params = Parameters::<Bls12>::build_mapped_parameters(path, false).expect("PARAMS");
    let key = prepare_verifying_key(&params.vk);
    let mut prove = Vec::new();
    let mut verify = Vec::new();
    for _ in 0..proofs {
        let (r, s) = (Scalar::random(&mut rand::thread_rng()), Scalar::random(&mut rand::thread_rng()));
        let (time, proof) = seconds(|| create_proof::<Bls12, _, _>(circuit.clone(), &params, r, s).unwrap());
        prove.push(time);
        let (time, good) = seconds(|| verify_proof(&key, &proof, &circuit.inputs[1..]).unwrap());
        assert!(good, "bellperson refuses its own proof");
        verify.push(time);
    }
    let setup = arguments.get(4).map(|_| {
        let start = Instant::now();
        generate_random_parameters::<Bls12, _, _>(circuit.clone(), &mut rand::thread_rng()).unwrap();
        start.elapsed().as_secs_f64()
    });
    let found = serde_json::json!({"prove_s": prove, "verify_s": verify, "setup_s": setup, "peak_mib": peak_mib()});
    println!("{found}");
}

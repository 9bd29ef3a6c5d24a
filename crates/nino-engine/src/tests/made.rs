//! Checkpoints with made-up weights, the same to the bit as `goldens/generate/weights.py` writes.

use nino_dtype::DType;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const POOL: usize = 1_000_003;
/// What ends a residual branch, which is to stay smaller than what it is added to.
const BRANCHES: [&str; 20] = [
    "out_layers.3",
    "to_out",
    "proj_out",
    "net.2",
    "fc2",
    "c_proj",
    "out_proj",
    "conv2",
    "attn.proj",
    "mlp.2",
    "linear2",
    "SelfAttention.q",
    "SelfAttention.o",
    "Dense.wo",
    "_attn.o.",
    "ffn.2",
    "o_proj",
    "down_proj",
    "attention.out",
    "feed_forward.w2",
];

pub(crate) fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/generate")
}

/// Names and shapes of a model, a line each.
pub(crate) fn list(model: &str) -> String {
    std::fs::read_to_string(goldens().join(format!("{model}.txt"))).unwrap()
}

/// Writes the checkpoint of such a list.
pub(crate) fn write_list(list: &str, path: &Path) {
    let mut tensors = Vec::new();
    for line in list.lines() {
        let (name, shape) = line.rsplit_once(' ').unwrap();
        let numbers = shape.split('x').filter(|d| *d != "scalar");
        let shape: Vec<usize> = numbers.map(|d| d.parse().unwrap()).collect();
        tensors.extend(expand(name).into_iter().map(|n| (n, shape.clone())));
    }
    let mut header = Map::new();
    let mut offset = 0;
    for (name, shape) in &tensors {
        let end = offset + 2 * shape.iter().product::<usize>();
        let entry = json!({"dtype": "F16", "shape": shape, "data_offsets": [offset, end]});
        header.insert(name.clone(), entry);
        offset = end;
    }
    let mut header = Value::Object(header).to_string();
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut file = BufWriter::new(File::create(path).unwrap());
    file.write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    file.write_all(header.as_bytes()).unwrap();
    let mut pools = Pools::default();
    for (name, shape) in &tensors {
        let pool = pools.with(scale(name, shape));
        let mut left = 2 * shape.iter().product::<usize>();
        let mut at = 2 * (crc32(name) as usize % POOL);
        while left > 0 {
            let n = left.min(pool.len() - at);
            file.write_all(&pool[at..at + n]).unwrap();
            (left, at) = (left - n, 0);
        }
    }
    file.flush().unwrap();
}

/// `{a-b}` stands for every number from a to b.
fn expand(name: &str) -> Vec<String> {
    let Some((head, rest)) = name.split_once('{') else {
        return vec![name.to_owned()];
    };
    let (range, tail) = rest.split_once('}').unwrap();
    let (a, b) = range.split_once('-').unwrap();
    (a.parse::<usize>().unwrap()..=b.parse().unwrap())
        .flat_map(|n| expand(&format!("{head}{n}{tail}")))
        .collect()
}

/// The pool of uniform numbers as f16 bytes, by mean and deviation.
#[derive(Default)]
struct Pools {
    units: Vec<f32>,
    made: HashMap<(u32, u32), Vec<u8>>,
}

impl Pools {
    fn with(&mut self, (mean, deviation): (f32, f32)) -> &[u8] {
        if self.units.is_empty() {
            self.units = (1..=POOL as u64).map(unit).collect();
        }
        let units = &self.units;
        let key = (mean.to_bits(), deviation.to_bits());
        self.made.entry(key).or_insert_with(|| {
            let values: Vec<f32> = units.iter().map(|u| mean + u * deviation).collect();
            let mut bytes = vec![0; 2 * POOL];
            nino_dtype::encode(DType::F16, &values, &mut bytes).unwrap();
            bytes
        })
    }
}

/// SplitMix64's top 24 bits as a number of deviation 1.
fn unit(i: u64) -> f32 {
    let mut z = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    ((z >> 40) as f32 / 16_777_216.0 - 0.5) * 12f64.sqrt() as f32
}

/// Mean and deviation.
fn scale(name: &str, shape: &[usize]) -> (f32, f32) {
    // A variance is above 0.
    let is_norm = ["weight", "scale", "running_var"]
        .iter()
        .any(|end| name.ends_with(end));
    if name.ends_with("norm.weight") || (is_norm && shape.len() == 1) {
        return (1.0, 0.1);
    }
    if shape.len() < 2 {
        return (0.0, 0.05);
    }
    let layers = ["text_embedding.", "time_embedding.", "patch_embedding."];
    if name.contains("embedding") && !layers.iter().any(|l| name.contains(l)) {
        return (0.0, 0.5);
    }
    let branch = BRANCHES.iter().any(|b| name.contains(b));
    let gain = if branch { 0.3 } else { 1.0 };
    let fan: usize = shape[1..].iter().product();
    (0.0, (gain / (fan as f64).sqrt()) as f32)
}

fn crc32(text: &str) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
    let byte = |crc: u32, byte: u8| (0..8).fold(crc ^ u32::from(byte), step);
    !text.bytes().fold(!0, byte)
}

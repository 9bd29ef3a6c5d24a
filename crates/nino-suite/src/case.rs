//! A case: a graph with its inputs, parameters and how exact the result must be.

use crate::{Class, Rng, Tensor};
use nino_dtype::{DType, int8_group};
use nino_graph::{Device, Graph, Node, Op, ParamError, ParamSource, ParamSpec, Shape};
use std::collections::BTreeMap;

/// Parameters held in memory by name.
#[derive(Clone, Debug, Default)]
pub struct MapSource(pub BTreeMap<String, Vec<u8>>);

impl ParamSource for MapSource {
    fn read(&self, param: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        let wrong = |what: String| ParamError {
            name: param.name.clone(),
            what,
        };
        let bytes = self
            .0
            .get(&param.name)
            .ok_or_else(|| wrong("not there".to_owned()))?;
        if bytes.len() != dst.len() {
            return Err(wrong(format!(
                "{} bytes wanted, {} there",
                dst.len(),
                bytes.len()
            )));
        }
        dst.copy_from_slice(bytes);
        Ok(())
    }
}

/// A graph with everything that is needed to run and judge it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The op, shapes and dtypes in words.
    pub name: String,
    pub graph: Graph,
    pub inputs: BTreeMap<Node, Tensor>,
    pub params: MapSource,
    pub class: Class,
}

impl Case {
    /// How exact the result must be on a device. One that multiplies integers rounds activations to
    /// 8 bits where weights are integers at a single filter position.
    pub fn class_on(&self, device: &dyn Device) -> Class {
        let integers = |w: Node| int8_group(self.graph.dtype(w)).is_some();
        let rounds = self.graph.ops().any(|(_, op)| match op {
            Op::Linear(o) => integers(o.w),
            Op::Conv(o) => {
                let w = self.graph.shape(o.w);
                w[1..w.rank() - 1].iter().all(|&side| side == 1) && integers(o.w)
            }
            _ => false,
        });
        if rounds && device.multiplies_integers() {
            Class::Int8
        } else {
            self.class
        }
    }
}

/// Records a case: like a [`Graph`], but inputs and parameters come with values.
pub struct CaseBuilder<'r> {
    pub g: Graph,
    pub rng: &'r mut Rng,
    inputs: BTreeMap<Node, Tensor>,
    params: MapSource,
}

impl<'r> CaseBuilder<'r> {
    pub fn new(rng: &'r mut Rng) -> CaseBuilder<'r> {
        CaseBuilder {
            g: Graph::new(),
            rng,
            inputs: BTreeMap::new(),
            params: MapSource::default(),
        }
    }

    /// Adds an input of standard normal values, rounded to its dtype.
    pub fn input(&mut self, shape: impl Into<Shape>, dtype: DType) -> Node {
        let values = Tensor::normal(shape, 0.0, 1.0, self.rng);
        self.input_of(&values, dtype)
    }

    /// Adds an input with the given values, rounded to its dtype.
    pub fn input_of(&mut self, values: &Tensor, dtype: DType) -> Node {
        let bytes = values.encode(dtype).expect("inputs have an encoder");
        let rounded =
            Tensor::decode(dtype, values.shape, &bytes).expect("what was encoded decodes");
        let name = format!("x{}", self.inputs.len());
        let node = self.g.input(&name, values.shape, dtype);
        self.inputs.insert(node, rounded);
        node
    }

    /// Adds a weight matrix or kernel whose products keep the scale of their inputs.
    pub fn weight(&mut self, shape: impl Into<Shape>, dtype: DType) -> Node {
        let shape = shape.into();
        let fan_in: usize = shape[1..].iter().product();
        self.param(shape, dtype, 0.0, 1.0 / (fan_in.max(1) as f64).sqrt())
    }

    /// Adds a parameter of normal values.
    pub fn param(&mut self, shape: impl Into<Shape>, dtype: DType, mean: f64, sd: f64) -> Node {
        let values = Tensor::normal(shape, mean, sd, self.rng);
        self.param_of(&values, dtype)
    }

    /// Adds a parameter with the given values, rounded to its dtype.
    pub fn param_of(&mut self, values: &Tensor, dtype: DType) -> Node {
        let name = format!("w{}", self.params.0.len());
        let node = self.g.param(&name, values.shape, dtype);
        self.params
            .0
            .insert(name, encode_any(values, dtype, self.rng));
        node
    }

    /// Ends the case; `out` is what is compared.
    pub fn finish(mut self, name: impl Into<String>, out: Node, class: Class) -> Case {
        self.g.output(out);
        let name = name.into();
        let graph = self
            .g
            .finish()
            .unwrap_or_else(|e| panic!("case {name}: {e}"));
        Case {
            name,
            graph,
            inputs: self.inputs,
            params: self.params,
            class,
        }
    }
}

/// Encodes values. For a type without an encoder it makes random blocks with sane scales instead.
fn encode_any(values: &Tensor, dtype: DType, rng: &mut Rng) -> Vec<u8> {
    if let Ok(bytes) = values.encode(dtype) {
        return bytes;
    }
    let n = values.shape.numel() / dtype.block_len();
    let size = 1.0 / (values.shape.last_dim() as f64).sqrt();
    (0..n)
        .flat_map(|_| random_block(dtype, size, rng))
        .collect()
}

/// A block of a type without an encoder, with values of about `size`: scales, then random codes.
fn random_block(dtype: DType, size: f64, rng: &mut Rng) -> Vec<u8> {
    // What codes stand for, about, before they are scaled.
    let mut scale = |codes: f64| (size / codes * (0.5 + rng.uniform())) as f32;
    let mut block = match dtype {
        DType::NVFP4 => [(); 4]
            .map(|()| nino_dtype::f32_to_e4m3(scale(3.0)))
            .to_vec(),
        DType::MXFP8 => vec![(127.0 + scale(128.0).log2().round()) as u8],
        DType::NF4 => scale(0.5).to_le_bytes().to_vec(),
        _ => nino_dtype::f32_to_f16(scale(64.0)).to_le_bytes().to_vec(),
    };
    while block.len() < dtype.block_bytes() {
        let code = rng.next_u64() as u8;
        // The one code that stands for no number.
        let is_nan = dtype == DType::MXFP8 && code & 0x7f == 0x7f;
        block.push(if is_nan { code - 1 } else { code });
    }
    block
}

//! A golden file, and how a recorded graph is compared with it.

use nino_cpu::{Cpu, CpuOptions};
use nino_dtype::DType;
use nino_graph::{Device, Graph, Node, ParamSource, Plan, Rewrites, RunOptions, Shape, rewrite};
use nino_models::{FileParams, Params};
use nino_suite::{Difference, Tensor, reference};
use nino_weights::TensorReader;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Largest NMSE against the reference implementation.
pub(crate) const LIMIT: f64 = 1e-8;

pub(crate) struct Golden {
    pub(crate) name: String,
    reader: Arc<TensorReader>,
}

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Golden {
    pub(crate) fn open(name: &str) -> Golden {
        let path = root().join(format!("goldens/models/{name}.safetensors"));
        Golden {
            name: name.to_owned(),
            reader: Arc::new(nino_weights::open(path).unwrap()),
        }
    }

    pub(crate) fn source(&self) -> FileParams {
        FileParams::new(&self.reader)
    }

    /// The root of the parameters of one graph, stored as the file has them.
    pub(crate) fn params(&self) -> Params<'_> {
        let source = self.source();
        Params::new(move |name| source.dtype(name))
    }

    pub(crate) fn find<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Fn(&str) -> Option<(Shape, DType)> + 'a {
        let source = FileParams::below(&self.reader, prefix);
        move |name| source.find(name)
    }

    /// Tensor `golden.<name>`.
    pub(crate) fn tensor(&self, name: &str) -> Tensor {
        let entry = self.reader.entry(&format!("golden.{name}")).unwrap();
        let mut bytes = vec![0; entry.n_bytes() as usize];
        self.reader.read(entry, &mut bytes).unwrap();
        Tensor::decode(entry.dtype, Shape::new(&entry.shape), &bytes).unwrap()
    }

    /// Values of `graph` by node; the intermediates that the golden has are compared on the way,
    /// and the first that diverges is named.
    pub(crate) fn run(
        &self,
        graph: &Graph,
        inputs: &BTreeMap<Node, Tensor>,
        compare: bool,
    ) -> BTreeMap<Node, Tensor> {
        self.run_with(graph, inputs, compare, Arc::new(self.source()))
    }

    /// The same with parameters that are not as the file has them.
    pub(crate) fn run_with(
        &self,
        graph: &Graph,
        inputs: &BTreeMap<Node, Tensor>,
        compare: bool,
        source: Arc<dyn ParamSource>,
    ) -> BTreeMap<Node, Tensor> {
        let values = reference::eval(graph, inputs, &*source).unwrap();
        if compare {
            self.intermediates(graph, &values);
        }
        // Neither fusing nor a device may change what is computed.
        let fused = rewrite(graph, Rewrites::ALL);
        let after = reference::eval(&fused, inputs, &*source).unwrap();
        let on_cpu = cpu(graph, inputs, source);
        for &out in graph.outputs() {
            let d = Difference::between(&after[&out].values, &values[&out].values);
            assert!(d.nmse < 1e-20, "{}: fused output: {d}", self.name);
            self.close("on the CPU", &on_cpu[&out], &values[&out]);
        }
        values
    }

    /// Compares every labelled value that the golden has.
    pub(crate) fn intermediates(&self, graph: &Graph, values: &BTreeMap<Node, Tensor>) {
        let mut compared = 0;
        for (node, value) in graph.values() {
            let Some(label) = &value.label else { continue };
            if self.reader.index().contains(&format!("golden.at.{label}")) {
                self.close(label, &values[&node], &self.tensor(&format!("at.{label}")));
                compared += 1;
            }
        }
        println!("{}: {compared} intermediates agree", self.name);
        assert!(compared > 1, "{}: labels and golden do not meet", self.name);
    }

    pub(crate) fn close(&self, what: &str, found: &Tensor, expected: &Tensor) {
        assert_eq!(found.shape, expected.shape, "{}: {what}", self.name);
        let d = Difference::between(&found.values, &expected.values);
        println!("{}: {what}: {d}", self.name);
        assert!(
            d.nmse <= LIMIT && d.not_finite == 0,
            "{}: {what} diverges: {d}",
            self.name
        );
    }
}

/// Outputs of the graph as the CPU computes them.
pub(crate) fn cpu(
    graph: &Graph,
    inputs: &BTreeMap<Node, Tensor>,
    source: Arc<dyn ParamSource>,
) -> BTreeMap<Node, Tensor> {
    on(
        &Cpu::new(CpuOptions::default()).unwrap(),
        graph,
        inputs,
        source,
    )
}

/// Outputs of the graph as a device computes them.
pub(crate) fn on(
    device: &dyn Device,
    graph: &Graph,
    inputs: &BTreeMap<Node, Tensor>,
    source: Arc<dyn ParamSource>,
) -> BTreeMap<Node, Tensor> {
    let fused = rewrite(graph, device.rewrites());
    let plan = Arc::new(Plan::new(fused, &device.limits()).unwrap());
    let weights = device.load(&[&plan], source).unwrap();
    let mut session = device.session(Arc::clone(&plan), &weights).unwrap();
    session.poison().unwrap();
    for (&node, value) in inputs {
        let bytes = value.encode(graph.dtype(node)).unwrap();
        session.write(node, &bytes).unwrap();
    }
    session.run(RunOptions::default()).unwrap();
    let mut outputs = BTreeMap::new();
    for &node in graph.outputs() {
        let mut bytes = vec![0; graph.bytes(node)];
        session.read(node, &mut bytes).unwrap();
        let value = Tensor::decode(graph.dtype(node), graph.shape(node), &bytes).unwrap();
        outputs.insert(node, value);
    }
    outputs
}

/// Frames `from..to` of a video.
pub(crate) fn frames(x: &Tensor, from: usize, to: usize) -> Tensor {
    let mut shape = x.shape;
    let each: usize = shape[2..].iter().product();
    assert_eq!(shape[0], 1);
    shape[1] = to - from;
    Tensor::new(shape, x.values[from * each..to * each].to_vec())
}

//! What a union ControlNet for SDXL adds against ComfyUI: see `goldens/generate/union.py`.

use super::comfy::store;
use crate::ControlNetFile;
use crate::fit::fit;
use crate::tests::made;
use crate::values::{read, write};
use nino_dtype::DType;
use nino_graph::{Graph, RunOptions};
use nino_models::{ControlNet, Network, Params, unet};
use nino_weights::names;
use std::sync::Arc;

#[test]
fn a_union_controlnet_is_told_what_it_sees_as_in_comfyui() {
    let golden = nino_weights::open(made::goldens().join("union.safetensors")).unwrap();
    let tensor = |key: &str| {
        let entry = golden.entry(key).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        golden.read_f32(entry, &mut values).unwrap();
        values
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("union.safetensors");
    made::write_list(&made::list("union_sdxl"), &path);
    assert_eq!(ControlNetFile::open(&path).unwrap().modes(), 6);

    let reader = Arc::new(nino_weights::open(&path).unwrap());
    let (mut components, _) = names::canonical(reader.index()).unwrap();
    let opened = nino_models::open(&reader, components.remove(0)).unwrap();
    let opened = opened.unwrap();
    let Network::ControlNet(ControlNet::Unet(config)) = &opened.network else {
        panic!("{:?}", opened.network)
    };
    let store = store();
    let device = store.device();
    for (name, mode) in [
        ("auto", None),
        ("0", Some(0)),
        ("3", Some(3)),
        ("5", Some(5)),
    ] {
        let mut g = Graph::new();
        let hint = g.input("hint", [2, 48, 32, 3], DType::F32);
        let inputs = unet::Inputs {
            x: g.input("x", [2, 6, 4, 4], DType::F32),
            t: g.input("t", [2], DType::F32),
            context: g.input("context", [2, 5, 64], DType::F32),
            y: Some(g.input("y", [2, 96], DType::F32)),
            guidance: None,
            perturbed: false,
        };
        let params = Params::new(|name| opened.params.dtype(name));
        let added = unet::control(&mut g, &params, config, inputs, hint, mode);
        let mut outs = added.skips.clone();
        outs.extend(added.middle);
        outs.iter().for_each(|&out| g.output(out));
        let plan = fit(device, &g.finish().unwrap(), 1).unwrap();
        let weights = device
            .load(&[&plan], Arc::new(opened.params.clone()))
            .unwrap();
        let mut session = device.session(plan.clone(), &weights).unwrap();
        let graph = plan.graph();
        for (node, key) in [
            (inputs.x, "in.x"),
            (hint, "in.hint"),
            (inputs.t, "in.t"),
            (inputs.context, "in.context"),
            (inputs.y.unwrap(), "in.y"),
        ] {
            write(&mut *session, graph, node, &tensor(key)).unwrap();
        }
        session.run(RunOptions::default()).unwrap();
        for (&out, part) in outs.iter().zip(["0", "1", "middle"]) {
            let found = read(&mut *session, graph, out).unwrap();
            let found: Vec<f32> = found.into_iter().step_by(7).collect();
            let wanted = tensor(&format!("{name}/{part}"));
            assert_eq!(found.len(), wanted.len());
            let square = |v: f32| f64::from(v) * f64::from(v);
            let error: f64 = found.iter().zip(&wanted).map(|(f, w)| square(f - w)).sum();
            let nmse = error / wanted.iter().map(|&w| square(w)).sum::<f64>();
            println!("{name}/{part}: NMSE {nmse:.1e}");
            assert!(nmse <= 1e-10, "{name}/{part}: NMSE {nmse:.1e}");
        }
    }
}

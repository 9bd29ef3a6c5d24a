//! Small models steered by ControlNets against ComfyUI: see `goldens/generate/control.py`.

use super::comfy::{Case, PROMPT};
use crate::generate::{GenerateRequest, Prompts};
use crate::tests::{made, stored::nmse};
use crate::{
    Checkpoint, ControlNetFile, EngineError, Family, Hint, HintImage, Image, Latent, LatentFormat,
    LatentSize,
};
use nino_dtype::DType;
use nino_sample::{Sampler, Scheduler};
use nino_weights::convert::{Options, convert};
use nino_weights::safetensors::{NewTensor, Writer};
use nino_weights::{Entry, TensorReader};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A model, the goldens, and the files of ControlNets.
struct Steered {
    case: Case,
    golden: TensorReader,
    folder: tempfile::TempDir,
}

impl Steered {
    fn new(model: &'static str, family: Family) -> Steered {
        let golden = made::goldens().join("control.safetensors");
        Steered {
            case: Case::new(model, family),
            golden: nino_weights::open(golden).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn net(&self, name: &str) -> ControlNetFile {
        let path = self.folder.path().join(format!("{name}.safetensors"));
        made::write_list(&made::list(&format!("control_{name}")), &path);
        ControlNetFile::open(&path).unwrap()
    }

    fn values(&self, key: &str) -> Vec<f32> {
        let entry = self.golden.entry(key).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        self.golden.read_f32(entry, &mut values).unwrap();
        values
    }

    fn image(&self) -> Image {
        Image {
            width: 56,
            height: 40,
            values: self.values("image"),
        }
    }

    fn request(&self, sampler: &str, scheduler: &str, cfg: f32) -> GenerateRequest {
        GenerateRequest {
            sampler: Sampler::find(sampler).unwrap(),
            scheduler: Scheduler::find(scheduler).unwrap(),
            cfg,
            ..self.case.request(PROMPT)
        }
    }

    fn check(&self, key: &str, request: &GenerateRequest, prompts: &Prompts) {
        self.check_to(1e-8, key, request, prompts);
    }

    fn check_to(&self, limit: f64, key: &str, request: &GenerateRequest, prompts: &Prompts) {
        let found = self.case.sampled(&self.case.model, request, prompts);
        let wanted = self.values(key);
        let nmse = nmse(&found, &wanted);
        println!("{key}: NMSE {nmse:.1e}");
        assert!(
            found.len() == wanted.len() && nmse <= limit,
            "{key}: NMSE {nmse:.1e}"
        );
    }
}

pub(super) fn hint(net: &ControlNetFile, image: Image, strength: f32, percent: (f64, f64)) -> Hint {
    Hint {
        net: net.clone(),
        seen: HintImage::Pixels {
            images: Arc::new(vec![image]),
            vae: None,
            paint: None,
        },
        strength,
        percent,
        both_sides: false,
    }
}

pub(super) fn both(prompts: &Prompts, hint: Hint) -> Prompts {
    let hint = Arc::new(hint);
    Prompts {
        positive: prompts.positive.with_hint(Arc::clone(&hint)),
        negative: prompts.negative.with_hint(hint),
    }
}

#[test]
fn sd1_under_a_controlnet_makes_what_comfyui_makes() {
    let steered = Steered::new("tiny_sd1", Family::Sd1);
    let (net, image) = (steered.net("sd1"), steered.image());
    let (prompts, _) = steered.case.text(&steered.case.request(PROMPT));
    let whole = hint(&net, image.clone(), 0.8, (0.0, 1.0));
    let plain = both(&prompts, whole.clone());
    for (sampler, scheduler) in [
        ("euler", "normal"),
        ("dpmpp_2m", "karras"),
        ("uni_pc", "simple"),
    ] {
        let request = steered.request(sampler, scheduler, 7.0);
        steered.check(&format!("sd1/plain/{sampler}"), &request, &plain);
    }
    let euler = steered.request("euler", "normal", 7.0);
    let part = both(&prompts, hint(&net, image.clone(), 0.8, (0.2, 0.7)));
    steered.check("sd1/range/euler", &euler, &part);
    let old = Prompts {
        positive: prompts.positive.with_hint(Arc::new(Hint {
            both_sides: true,
            ..whole
        })),
        ..prompts.clone()
    };
    steered.check("sd1/old/euler", &euler, &old);
    let inverted = Image {
        values: image.values.iter().map(|v| 1.0 - v).collect(),
        ..image
    };
    let twice = both(&plain, hint(&net, inverted, 0.5, (0.0, 0.5)));
    steered.check("sd1/twice/euler", &euler, &twice);
}

#[test]
fn flux_under_a_controlnet_makes_what_comfyui_makes() {
    let steered = Steered::new("tiny_flux", Family::Flux);
    let (xlabs, union) = (steered.net("xlabs"), steered.net("union"));
    let (prompts, _) = steered.case.text(&steered.case.request(PROMPT));
    let planes = steered.values("encoded");
    let mut encoded = Latent {
        values: (0..planes.len())
            .map(|i| planes[i % 16 * 48 + i / 16])
            .collect(),
        ..Latent::empty(1, 16, LatentSize::picture(6, 8))
    };
    encoded.scale_to_model(LatentFormat::by_name("flux").unwrap());
    let seen = HintImage::Encoded(Arc::new(encoded));
    let seen = |net: &ControlNetFile| Hint {
        seen: seen.clone(),
        ..hint(net, Image::default(), 0.8, (0.0, 1.0))
    };
    let runs = [
        ("euler", "simple"),
        ("dpmpp_2m", "beta"),
        ("uni_pc", "sgm_uniform"),
    ];
    for (sampler, scheduler) in runs {
        let request = steered.request(sampler, scheduler, 1.0);
        let pixels = both(&prompts, hint(&xlabs, steered.image(), 0.8, (0.0, 1.0)));
        steered.check(&format!("xlabs/plain/{sampler}"), &request, &pixels);
        let latent = both(&prompts, seen(&union));
        steered.check(&format!("union/plain/{sampler}"), &request, &latent);
    }
    let euler = steered.request("euler", "simple", 1.0);
    let told = both(&prompts, seen(&union.with_mode(Some(3))));
    steered.check("union/mode/euler", &euler, &told);
}

/// Writes a ControlNet as its difference to a model's weights.
fn write_difference(net: &Path, model: &Path, to: &Path) {
    let (net, model) = (
        nino_weights::open(net).unwrap(),
        nino_weights::open(model).unwrap(),
    );
    let read = |reader: &TensorReader, entry: &Entry| {
        let mut values = vec![0.0; entry.n_values()];
        reader.read_f32(entry, &mut values).unwrap();
        values
    };
    let entries = net.index().entries();
    let mut list: Vec<_> = entries
        .iter()
        .map(|e| NewTensor {
            name: e.name.clone(),
            dtype: DType::F32,
            shape: e.shape.clone(),
        })
        .collect();
    list.push(NewTensor {
        name: "difference".into(),
        dtype: DType::F32,
        shape: vec![1],
    });
    let mut writer = Writer::create(to, &list, &BTreeMap::new()).unwrap();
    let mut n = 0;
    for entry in entries {
        let mut values = read(&net, entry);
        let name = entry
            .name
            .replace("control_model.", "model.diffusion_model.");
        if let Ok(own) = model.entry(&name) {
            let own = read(&model, own);
            values.iter_mut().zip(own).for_each(|(v, o)| *v -= o);
            n += 1;
        }
        writer.write(bytemuck::cast_slice(&values)).unwrap();
    }
    writer.write(bytemuck::bytes_of(&1.0f32)).unwrap();
    writer.finish().unwrap();
    assert!(n > 50, "{n} of {} tensors are the model's", entries.len());
}

#[test]
fn a_controlnet_of_differences_is_added_to_its_model() {
    let steered = Steered::new("tiny_sd1", Family::Sd1);
    let at = |name: &str| steered.folder.path().join(format!("{name}.safetensors"));
    let whole = steered.net("sd1");
    let model = &steered.case.model.diffusion;
    write_difference(&at("sd1"), model.origin_path().unwrap(), &at("difference"));
    let alone = ControlNetFile::open(&at("difference")).err().unwrap();
    assert!(
        matches!(alone, EngineError::ControlNetDifference { .. }),
        "{alone}"
    );
    let net = ControlNetFile::open_for(&at("difference"), model).unwrap();
    let (prompts, _) = steered.case.text(&steered.case.request(PROMPT));
    let steering = both(&prompts, hint(&net, steered.image(), 0.8, (0.0, 1.0)));
    let euler = steered.request("euler", "normal", 7.0);
    steered.check("sd1/plain/euler", &euler, &steering);
    // A file that has whole weights needs no model, and does not use it.
    let plain = ControlNetFile::open_for(&at("sd1"), model).unwrap();
    assert_eq!(plain.id(), whole.id());
}

/// Its layers are updates of the model's, which is chosen when it steers.
#[test]
fn a_control_lora_makes_what_comfyui_makes() {
    let steered = Steered::new("tiny_sd1", Family::Sd1);
    let net = steered.net("lora");
    let (prompts, _) = steered.case.text(&steered.case.request(PROMPT));
    let steering = both(&prompts, hint(&net, steered.image(), 0.8, (0.0, 1.0)));
    for (sampler, scheduler) in [("euler", "normal"), ("dpmpp_2m", "karras")] {
        let request = steered.request(sampler, scheduler, 7.0);
        // Updated weights are held in f16, as the file has them; ComfyUI's are in f32 here.
        steered.check_to(1e-7, &format!("lora/plain/{sampler}"), &request, &steering);
    }
    let model = &steered.case.model.diffusion;
    let whole = net.for_model(model).unwrap();
    assert!(!whole.is_lora() && whole.id() != net.id());
    assert_eq!(whole.id(), net.for_model(model).unwrap().id());
}

/// Updates of weights that are quantized in the model's file run beside them.
#[test]
fn a_control_lora_steers_a_quantized_model() {
    let steered = Steered::new("tiny_sd1", Family::Sd1);
    let net = steered.net("lora");
    let path = steered.folder.path().join("quantized.gguf");
    let whole = steered.case.model.diffusion.origin_path().unwrap();
    let whole = nino_weights::open(whole).unwrap();
    let options = Options {
        dtype: DType::Q8_0,
        keep: Vec::new(),
        architecture: "sd1".to_owned(),
    };
    convert(&whole, &path, &options, |_| true).unwrap();
    let quantized = Checkpoint::open(&path, None).unwrap();
    let request = steered.request("euler", "normal", 7.0);
    let (prompts, _) = steered.case.text(&request);
    let steering = both(&prompts, hint(&net, steered.image(), 0.8, (0.0, 1.0)));
    let found = steered.case.sampled(&quantized, &request, &steering);
    let nmse = nmse(&found, &steered.values("lora/plain/euler"));
    println!("quantized: NMSE {nmse:.1e}");
    assert!(nmse < 1e-3, "NMSE {nmse:.1e}");
}

#[test]
fn controlnets_that_cannot_steer_a_model_are_refused() {
    let steered = Steered::new("tiny_flux", Family::Flux);
    let (prompts, _) = steered.case.text(&steered.case.request(PROMPT));
    let request = steered.request("euler", "simple", 1.0);
    let refused = |net: &ControlNetFile| {
        let prompts = both(&prompts, hint(net, steered.image(), 1.0, (0.0, 1.0)));
        let model = &steered.case.model;
        let planned =
            crate::generate::passes::Passes::plan(&steered.case.store, model, &request, &prompts);
        planned.err().unwrap()
    };
    let error = refused(&steered.net("sd1"));
    assert!(
        matches!(error, EngineError::ControlNetFamily { .. }),
        "{error}"
    );
    let error = refused(&steered.net("union").with_mode(Some(10)));
    assert!(
        matches!(error, EngineError::ControlNetMode { known: 10, .. }),
        "{error}"
    );
    let model = steered.folder.path().join("model.safetensors");
    made::write_list("input_blocks.0.0.weight 4x4x3x3\n", &model);
    let error = ControlNetFile::open(&model).err().unwrap();
    assert!(error.to_string().contains("model.safetensors"), "{error}");
}

#[test]
fn canny_finds_the_edges_that_comfyui_finds() {
    let golden = nino_weights::open(made::goldens().join("canny.safetensors")).unwrap();
    let values = |key: &str| {
        let entry = golden.entry(key).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        golden.read_f32(entry, &mut values).unwrap();
        values
    };
    let image = values("image");
    for (low, high) in [(0.4, 0.8), (0.1, 0.2), (0.3, 0.9)] {
        let wanted = values(&format!("edges/{low}/{high}"));
        let found = crate::media::canny(&image, 64, 48, low, high);
        let edges = wanted.iter().filter(|&&v| v > 0.0).count();
        assert!(edges > 100, "{edges}");
        let other = found
            .iter()
            .zip(&wanted)
            .filter(|(f, w)| f.to_bits() != w.to_bits());
        // Sums in another order may turn one gradient across a limit.
        assert!(other.count() <= 2, "{low} {high}");
    }
}

/// ComfyUI gives the hints of a batch to its images in turn.
#[test]
fn each_image_of_a_batch_has_a_hint_of_its_own() {
    let steered = Steered::new("tiny_sd1", Family::Sd1);
    let net = steered.net("sd1");
    let gray = |value: f32| Image {
        width: 16,
        height: 16,
        values: vec![value; 16 * 16 * 3],
    };
    let mut two = hint(&net, gray(0.25), 1.0, (0.0, 1.0));
    two.seen = HintImage::Pixels {
        images: Arc::new(vec![gray(0.25), gray(0.75)]),
        vae: None,
        paint: None,
    };
    let values = two.batch_values(3, 2, 2).unwrap();
    let firsts: Vec<f32> = values.chunks(values.len() / 3).map(|v| v[0]).collect();
    assert_eq!(firsts, [0.25, 0.75, 0.25]);
    assert_eq!(two.batch_values(1, 2, 2).unwrap()[..1], [0.25]);
}

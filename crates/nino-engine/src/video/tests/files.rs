//! Wan's transformer as files have it beside f16, and with LoRAs of every family of names, each
//! against the plain numbers that its files stand for.

use super::{Case, Told};
use crate::generate::tests::comfy::planes;
use crate::tests::made;
use crate::tests::stored::{Tensor, encoded, in_blocks, nmse, plain, scaled, tensors, write};
use crate::{DiffusionModel, LoraSpec, apply_lora};
use nino_dtype::DType;
use nino_weights::safetensors::NewTensor;
use std::path::Path;

const PLACE: &str = "model.diffusion_model.";

/// The small Wan alone in a file, with the names of such files.
fn transformer(case: &Case) -> Vec<Tensor> {
    let path = case.folder.path().join("low.safetensors");
    let list = made::list("tiny_wan_low").replace(PLACE, "");
    made::write_list(&list, &path);
    tensors(&path)
}

/// Two steps of a clip.
fn latent(case: &Case, model: &DiffusionModel) -> Vec<f32> {
    let told = Told {
        steps: 2,
        window: 0..2,
        ..case.told()
    };
    planes(&case.sampled(model, &told))
}

fn opened(case: &Case, path: &Path) -> Vec<f32> {
    latent(case, &DiffusionModel::open(path).unwrap())
}

#[test]
fn transformers_in_gguf_fp8_and_int8_give_what_their_numbers_give() {
    let case = Case::new();
    let at = |name: &str| case.folder.path().join(name);
    let tensors = transformer(&case);
    let unchanged: Vec<Vec<f32>> = tensors.iter().map(|t| t.values.clone()).collect();
    let whole = opened(&case, &plain(at("f32.safetensors"), &tensors, &unchanged));
    let patch = tensors.iter().find(|t| t.name == "patch_embedding.weight");
    assert_eq!(patch.map(|t| t.shape.len()), Some(5), "five dimensions");
    // Products of 8 bits may round their other factor to 8 bits, too.
    for (name, (path, values), limit) in [
        (
            "gguf",
            in_blocks(at("q8.gguf"), &tensors, str::to_owned),
            1e-3,
        ),
        (
            "fp8",
            scaled(at("fp8.safetensors"), &tensors, DType::F8E4M3),
            1e-8,
        ),
        (
            "int8",
            scaled(at("int8.safetensors"), &tensors, DType::I8),
            1e-3,
        ),
    ] {
        let wanted = opened(&case, &plain(at("numbers.safetensors"), &tensors, &values));
        let found = opened(&case, &path);
        let (near, rounding) = (nmse(&found, &wanted), nmse(&wanted, &whole));
        println!("{name}: NMSE {near:.1e}; its rounding alone {rounding:.1e}");
        assert!(near <= limit, "{name}: NMSE {near:.1e}");
        assert!(rounding > 1e-9, "{name}: its numbers are not those of f16");
    }
}

const RANK: usize = 4;
const ALPHA: f32 = 2.0;
const STRENGTH: f32 = 0.75;

/// A LoRA being made, and what it makes of the model.
struct Update {
    written: Vec<(NewTensor, Vec<u8>)>,
    merged: Vec<Tensor>,
    seed: u32,
}

impl Update {
    /// Numbers from a generator (Numerical Recipes' `ranqd1`), about as large as `size`.
    fn values(&mut self, n: usize, size: f32) -> Vec<f32> {
        let mut next = || {
            self.seed = self
                .seed
                .wrapping_mul(1_664_525)
                .wrapping_add(1_013_904_223);
            (self.seed >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..n).map(|_| next() * size).collect()
    }

    fn write(&mut self, name: String, shape: &[usize], values: &[f32]) {
        let tensor = NewTensor {
            name,
            dtype: DType::F32,
            shape: shape.to_vec(),
        };
        self.written.push((tensor, encoded(DType::F32, values)));
    }

    fn target(&mut self, name: &str) -> &mut Tensor {
        let found = self.merged.iter_mut().find(|t| t.name == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    }

    /// An update of low rank of the layer `own`, which the file calls `name`. `halves` are the
    /// endings of the matrix that comes last and of that which comes first.
    fn low_rank(&mut self, own: &str, name: &str, halves: [&str; 2], alpha: bool) {
        let weight = format!("{own}.weight");
        let shape = self.target(&weight).shape.clone();
        let [rows, columns] = [shape[0], shape[1..].iter().product()];
        let (up, down) = (
            self.values(rows * RANK, 0.3),
            self.values(RANK * columns, 0.3),
        );
        self.write(format!("{name}.{}.weight", halves[0]), &[rows, RANK], &up);
        self.write(
            format!("{name}.{}.weight", halves[1]),
            &[RANK, columns],
            &down,
        );
        let mut scale = STRENGTH;
        if alpha {
            self.write(format!("{name}.alpha"), &[], &[ALPHA]);
            scale *= ALPHA / RANK as f32;
        }
        let target = self.target(&weight);
        for row in 0..rows {
            for column in 0..columns {
                let products = (0..RANK).map(|r| up[row * RANK + r] * down[r * columns + column]);
                target.values[row * columns + column] += scale * products.sum::<f32>();
            }
        }
    }

    /// A whole difference of a tensor, which the file calls `name`.
    fn difference(&mut self, own: &str, name: &str) {
        let shape = self.target(own).shape.clone();
        let values = self.values(shape.iter().product(), 0.02);
        self.write(name.to_owned(), &shape, &values);
        let target = self.target(own);
        for (value, plus) in target.values.iter_mut().zip(&values) {
            *value += STRENGTH * plus;
        }
    }
}

/// The families of names in which LoRAs of Wan come.
fn families(update: &mut Update, family: &str) {
    match family {
        "lightx2v" => {
            let halves = ["lora_up", "lora_down"];
            let named = |own: &str| format!("diffusion_model.{own}");
            for own in ["blocks.0.self_attn.q", "blocks.1.ffn.2", "time_embedding.0"] {
                update.low_rank(own, &named(own), halves, true);
            }
            update.difference("blocks.0.norm3.weight", &named("blocks.0.norm3.diff"));
            update.difference("blocks.0.norm3.bias", &named("blocks.0.norm3.diff_b"));
            update.difference(
                "blocks.1.self_attn.norm_q.weight",
                &named("blocks.1.self_attn.norm_q.diff"),
            );
            update.difference(
                "blocks.0.self_attn.q.bias",
                &named("blocks.0.self_attn.q.diff_b"),
            );
            update.difference("head.head.weight", &named("head.head.diff"));
            update.difference("head.head.bias", &named("head.head.diff_b"));
            update.difference("patch_embedding.weight", &named("patch_embedding.diff"));
        }
        "ai-toolkit" => {
            for own in ["blocks.0.cross_attn.k", "blocks.2.ffn.0"] {
                let name = format!("diffusion_model.{own}");
                update.low_rank(own, &name, ["lora_B", "lora_A"], false);
            }
        }
        "musubi" => {
            for own in ["blocks.1.self_attn.v", "blocks.2.ffn.2"] {
                let name = format!("lora_unet_{}", own.replace('.', "_"));
                update.low_rank(own, &name, ["lora_up", "lora_down"], true);
            }
        }
        "diffusers" => {
            for (own, name) in [
                ("blocks.0.self_attn.q", "blocks.0.attn1.to_q"),
                ("blocks.1.self_attn.o", "blocks.1.attn1.to_out.0"),
                ("blocks.2.cross_attn.v", "blocks.2.attn2.to_v"),
                ("blocks.0.ffn.0", "blocks.0.ffn.net.0.proj"),
                ("blocks.1.ffn.2", "blocks.1.ffn.net.2"),
                (
                    "time_embedding.2",
                    "condition_embedder.time_embedder.linear_2",
                ),
            ] {
                let name = format!("transformer.{name}");
                update.low_rank(own, &name, ["lora_B", "lora_A"], false);
            }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn loras_of_every_family_of_names_are_merged_weights() {
    let case = Case::new();
    let at = |name: &str| case.folder.path().join(name);
    let tensors = transformer(&case);
    let plain_values = |tensors: &[Tensor]| -> Vec<Vec<f32>> {
        tensors.iter().map(|t| t.values.clone()).collect()
    };
    let base = plain(at("f32.safetensors"), &tensors, &plain_values(&tensors));
    let base = DiffusionModel::open(&base).unwrap();
    let before = latent(&case, &base);
    for family in ["lightx2v", "ai-toolkit", "musubi", "diffusers"] {
        let mut update = Update {
            written: Vec::new(),
            merged: transformer(&case),
            seed: 7,
        };
        families(&mut update, family);
        let spec = LoraSpec {
            path: write(at("lora.safetensors"), &update.written),
            unet: STRENGTH,
            clip: 0.0,
        };
        let with = apply_lora(Some(&base), None, &spec).unwrap();
        assert_eq!(with.applied.unmatched, Vec::<String>::new(), "{family}");
        let found = latent(&case, &with.diffusion.unwrap());
        let merged = plain(
            at("merged.safetensors"),
            &tensors,
            &plain_values(&update.merged),
        );
        let wanted = opened(&case, &merged);
        let (near, change) = (nmse(&found, &wanted), nmse(&wanted, &before));
        println!("{family}: NMSE {near:.1e}; of the change itself {change:.1e}");
        assert!(near <= 1e-8, "{family}: NMSE {near:.1e}");
        assert!(change > 1e-5, "{family}: changes next to nothing");
    }
}

//! A small Flux with a picture's style, without guidance, and with latents at other places, against
//! ComfyUI: see `goldens/generate/style.py`.

use super::comfy::{Case, PROMPT};
use super::flux;
use crate::tests::made;
use crate::{
    Conditioning, Control, Family, Image, ImageEncoder, ReferenceMethod, Square, StyleModel,
    StyleStrength, StyleTokens, encode_for_clip, style_tokens,
};
use nino_sample::{Sampler, Scheduler};
use nino_weights::TensorReader;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SAMPLERS: [(&str, &str); 3] = [
    ("euler", "simple"),
    ("dpmpp_2m", "beta"),
    ("uni_pc", "sgm_uniform"),
];

struct Styled {
    case: Case,
    golden: TensorReader,
}

impl Styled {
    fn new() -> Styled {
        let golden = made::goldens().join("style.safetensors");
        Styled {
            case: Case::new("tiny_flux", Family::Flux),
            golden: nino_weights::open(golden).unwrap(),
        }
    }

    fn values(&self, key: &str) -> Vec<f32> {
        let entry = self.golden.entry(key).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        self.golden.read_f32(entry, &mut values).unwrap();
        values
    }

    fn close(&self, key: &str, found: &[f32], most: f64) {
        let wanted = self.values(key);
        let square = |v: f32| f64::from(v) * f64::from(v);
        let error: f64 = found.iter().zip(&wanted).map(|(f, w)| square(f - w)).sum();
        let nmse = error / wanted.iter().map(|&w| square(w)).sum::<f64>();
        println!("{key}: NMSE {nmse:.1e}");
        assert!(
            found.len() == wanted.len() && nmse <= most,
            "{key}: NMSE {nmse:.1e}"
        );
    }

    fn sampled(&self, prompt: &Conditioning, (sampler, scheduler): (&str, &str)) -> Vec<f32> {
        let request = crate::GenerateRequest {
            sampler: Sampler::find(sampler).unwrap(),
            scheduler: Scheduler::find(scheduler).unwrap(),
            cfg: 1.0,
            ..self.case.request(PROMPT)
        };
        flux::sampled(&self.case, &self.case.model.diffusion, &request, prompt)
    }

    fn check(&self, key: &str, prompt: &Conditioning, sampler: (&str, &str)) {
        self.close(key, &self.sampled(prompt, sampler), 1e-8);
    }

    fn prompt(&self) -> Conditioning {
        self.case.text(&self.case.request(PROMPT)).0.positive
    }

    /// Hidden states and tokens of the picture, which are checked.
    fn tokens(&self) -> StyleTokens {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = folder.path().join(format!("{name}.safetensors"));
            made::write_list(&made::list(name), &path);
            path
        };
        let encoder = ImageEncoder::open(&at("siglip")).unwrap();
        let style = StyleModel::open(&at("redux")).unwrap();
        let image = Image {
            width: 56,
            height: 40,
            values: self.values("image"),
        };
        let never = AtomicBool::new(false);
        let mut control = Control {
            cancel: &never,
            on_event: &mut |_| {},
        };
        let store = &self.case.store;
        let mut seen =
            |square| encode_for_clip(store, &encoder, &image, square, &mut control).unwrap();
        // A value between two bytes may be rounded to the other one.
        self.close("siglip/none", &seen(Square::Stretch).values, 1e-6);
        let states = seen(Square::Cut);
        self.close("siglip/center", &states.values, 1e-6);
        let tokens = style_tokens(store, &style, &states, &mut control).unwrap();
        self.close("redux", &tokens.values, 1e-6);
        tokens
    }
}

#[test]
fn flux_redux_makes_what_comfyui_makes() {
    let styled = Styled::new();
    let made = styled.tokens();
    // The golden's own tokens, so that only sampling is compared.
    let tokens = StyleTokens {
        values: styled.values("redux"),
        ..made
    };
    let with = |prompt: &Conditioning, strength| prompt.with_style(&tokens, strength).unwrap();
    let prompt = styled.prompt();
    for sampler in SAMPLERS {
        let key = |case: &str| format!("style/{case}/{}", sampler.0);
        let multiplied = with(&prompt, StyleStrength::Multiply(0.8));
        styled.check(&key("multiply"), &multiplied, sampler);
        let heeded = with(&prompt, StyleStrength::Heed(0.5));
        styled.check(&key("bias"), &heeded, sampler);
    }
    let twice = with(
        &with(&prompt, StyleStrength::Heed(0.3)),
        StyleStrength::Heed(2.0),
    );
    styled.check("style/twice/euler", &twice, SAMPLERS[0]);
    let then = with(&twice, StyleStrength::Multiply(0.7));
    styled.check("style/then/euler", &then, SAMPLERS[0]);
}

/// ComfyUI gives NaN here.
#[test]
fn a_style_that_is_not_heeded_changes_nothing() {
    let styled = Styled::new();
    let tokens = StyleTokens {
        values: styled.values("redux"),
        width: 64,
    };
    let prompt = styled.prompt();
    let with = prompt
        .with_style(&tokens, StyleStrength::Heed(0.0))
        .unwrap();
    let [plain, none] = [&prompt, &with].map(|p| styled.sampled(p, SAMPLERS[0]));
    let most = plain.iter().zip(&none).map(|(a, b)| (a - b).abs());
    let most = most.fold(0.0, f32::max);
    assert!(most < 1e-3, "{most}");
}

#[test]
fn flux_without_guidance_makes_what_comfyui_makes() {
    let styled = Styled::new();
    let prompt = styled.prompt().without_guidance();
    for sampler in SAMPLERS {
        styled.check(&format!("unguided/{}", sampler.0), &prompt, sampler);
    }
}

#[test]
fn latents_to_look_at_are_where_comfyui_has_them() {
    let styled = Styled::new();
    let path = made::goldens().join("tiny_flux.safetensors");
    let golden = nino_weights::open(path).unwrap();
    let mut prompt = styled.prompt();
    for (i, (h, w)) in [(6, 4), (5, 8)].into_iter().enumerate() {
        let entry = golden.entry(&format!("reference/{i}")).unwrap();
        let mut planes = vec![0.0; entry.n_values()];
        golden.read_f32(entry, &mut planes).unwrap();
        prompt = prompt.with_reference(Arc::new(flux::latent(&planes, h, w)));
    }
    for (method, places) in [
        ("offset", ReferenceMethod::Offset),
        ("index", ReferenceMethod::Index),
        ("uxo", ReferenceMethod::Uxo),
    ] {
        let placed = Conditioning {
            places: Some(places),
            ..prompt.clone()
        };
        styled.check(&format!("places/{method}"), &placed, SAMPLERS[0]);
    }
}

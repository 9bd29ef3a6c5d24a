//! One way to make the picture: what is set, what it took, how like it is.

use nino_engine::{
    Checkpoint, Control, DType, Device, EngineError, Family, GenerateRequest, Picture, Precision,
    Store, Tile, Tiling, generate,
};
use std::sync::Arc;
use std::time::Duration;

/// Tiles to try for pictures that are larger.
const TILES: Tiling = Tiling {
    size: 512,
    overlap: 96,
};

/// An option and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Setting {
    Precision(&'static str),
    Quantize(DType),
    Tiles(Tiling),
    Steps(usize),
}

impl Setting {
    /// Every option to try for a picture, one after the other.
    pub(super) fn all(model: &Checkpoint, request: &GenerateRequest) -> Vec<Setting> {
        let mut all = vec![Setting::Precision("fp16"), Setting::Precision("bf16")];
        // The built-in model is quantized already.
        if model.family() != Family::Emoji {
            all.extend([DType::Q8_0, DType::Q4_K].map(Setting::Quantize));
        }
        if request.width.max(request.height) > TILES.size {
            all.push(Setting::Tiles(TILES));
        }
        let steps = request.steps;
        let mut fewer = vec![(steps * 3 / 4).max(1), (steps / 2).max(1)];
        fewer.dedup();
        all.extend(fewer.into_iter().filter(|n| *n < steps).map(Setting::Steps));
        all
    }

    pub(super) fn name(&self) -> String {
        match self {
            Setting::Precision(name) => format!("precision {name}"),
            Setting::Quantize(dtype) => format!("quantize {}", dtype.name().to_lowercase()),
            Setting::Tiles(tiling) => format!("tiles of {}", tiling.size),
            Setting::Steps(n) => format!("steps {n}"),
        }
    }

    /// What it is in a config file: keys with their values.
    pub(super) fn keys(&self) -> Vec<(&'static str, String)> {
        match self {
            Setting::Precision(name) => vec![("precision", (*name).to_owned())],
            Setting::Quantize(dtype) => vec![("quantize", dtype.name().to_lowercase())],
            Setting::Tiles(tiling) => vec![
                ("tile", "fast".to_owned()),
                ("tile_size", tiling.size.to_string()),
                ("overlap", tiling.overlap.to_string()),
            ],
            Setting::Steps(n) => vec![("steps", n.to_string())],
        }
    }

    /// Whether both set the same option.
    pub(super) fn is_like(&self, other: &Setting) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// What pictures are made with.
pub(super) struct Bench<'a> {
    pub(super) device: Arc<dyn Device>,
    pub(super) model: &'a Checkpoint,
    pub(super) request: &'a GenerateRequest,
    pub(super) runs: usize,
}

/// What a way took.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub(super) setting: Option<Setting>,
    /// Text, steps and decode of each run, fastest first.
    pub(super) times: Vec<Duration>,
    pub(super) peak_bytes: usize,
    /// dB to the picture in f32; infinite where it is the same.
    pub(super) psnr: f64,
    pub(super) picture: Picture,
}

impl Tried {
    pub(super) fn median(&self) -> Duration {
        let n = self.times.len();
        (self.times[(n - 1) / 2] + self.times[n / 2]) / 2
    }

    pub(super) fn of(self, setting: Setting) -> Tried {
        Tried {
            setting: Some(setting),
            ..self
        }
    }
}

impl Bench<'_> {
    /// Makes the picture with these settings, once to warm up and then `runs` times.
    pub(super) fn run(
        &self,
        settings: &[Setting],
        base: Option<&Tried>,
        control: &mut Control<'_>,
    ) -> Result<Tried, EngineError> {
        let (mut request, mut model) = (self.request.clone(), self.model.clone());
        for setting in settings {
            match setting {
                Setting::Precision(name) => {
                    let precision = match *name {
                        "fp32" => Precision::F32,
                        "fp16" => Precision::F16,
                        _ => Precision::Bf16,
                    };
                    request.precision = precision;
                    request.decode.precision = precision;
                }
                Setting::Quantize(dtype) => model = model.quantized(*dtype),
                Setting::Tiles(tiling) => request.decode.tile = Tile::Fast(*tiling),
                Setting::Steps(n) => request.steps = *n,
            }
        }
        let store = Store::new(Arc::clone(&self.device));
        let mut once = || generate(&store, &model, &request, control, &mut |_| Ok(()));
        let mut made = once()?;
        let mut times = Vec::new();
        for _ in 0..self.runs {
            made = once()?;
            times.push(made.text_time + made.sample_time + made.decoded.decode_time);
        }
        times.sort_unstable();
        let picture = made.pictures.swap_remove(0);
        Ok(Tried {
            setting: None,
            psnr: base.map_or(f64::INFINITY, |base| psnr(&picture, &base.picture)),
            peak_bytes: made.peak_bytes,
            times,
            picture,
        })
    }
}

/// Peak signal to noise in dB.
pub(super) fn psnr(a: &Picture, b: &Picture) -> f64 {
    let square = |(a, b): (&u8, &u8)| (f64::from(*a) - f64::from(*b)).powi(2);
    let sum: f64 = a.rgb.iter().zip(&b.rgb).map(square).sum();
    if sum == 0.0 {
        return f64::INFINITY;
    }
    10.0 * (255.0 * 255.0 * a.rgb.len() as f64 / sum).log10()
}

//! The colors of one picture given to another: `ColorTransfer`.
//!
//! Colors are matched in CIELAB by their mean and spread (Reinhard et al. 2001), or by their mean
//! and covariance (Monge-Kantorovich, Pitié and Kokaram 2007), or each channel by its histogram.

mod lab;

use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{combo, float, hidden, int, link, named};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use lab::{Matrix, Vector, lab_to_rgb, rgb_to_lab, root};
use nino_engine::Image;
use serde_json::{Value as Json, json};

const SOURCES: [&str; 3] = ["per_frame", "uniform", "target_frame"];
const FRAMES: (i128, i128) = (0, 10_000);
/// The least spread of colors, which is divided by.
const LEAST: f64 = 1e-6;
const BINS: usize = 256;

pub(super) static NODES: &[NodeDef] = &[NodeDef {
    class: "ColorTransfer",
    display_name: "Transfer Color",
    category: "image/filters",
    inputs: &[
        link("image_target", Socket::Image),
        link("image_ref", Socket::Image),
        combo("method", || vec!["reinhard_lab", "mkl_lab", "histogram"]),
        combo("source_stats", || SOURCES.to_vec()),
        float("strength", 1.0, (0.0, 10.0), 0.01),
        hidden(int("source_stats.target_index", 0, FRAMES, 1)),
    ],
    outputs: &[named("image", Socket::Image)],
    is_output: false,
    run: transfer,
}];

/// What `/object_info` says of the choices, and of what stands below them.
pub(super) fn sources() -> Json {
    let index = json!(["INT", { "default": 0, "min": FRAMES.0 as u64, "max": FRAMES.1 as u64 }]);
    let below = |source: &str| match source {
        "target_frame" => json!({ "target_index": index }),
        _ => json!({}),
    };
    let each = SOURCES.iter();
    each.map(|source| json!({ "key": source, "inputs": { "required": below(source) } }))
        .collect()
}

fn transfer(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (images, others) = (call.images("image_target")?, call.images("image_ref")?);
    let strength = call.float("strength")?;
    let (Some(last), Some(_)) = (images.len().checked_sub(1), others.first()) else {
        return Ok(vec![Value::Image(images)]);
    };
    if strength == 0.0 {
        return Ok(vec![Value::Image(images)]);
    }
    let source = call.text("source_stats")?;
    let index = match call.get("source_stats.target_index") {
        Some(_) => call.size("source_stats.target_index")?,
        None => 0,
    };
    let (method, target) = (call.text("method")?, &images[index.min(last)]);
    let baseline = match &*source {
        "uniform" => Some(&images[..]),
        "target_frame" => Some(std::slice::from_ref(target)),
        _ => None,
    };
    let is_histogram = &*method == "histogram";
    let way = |from: &[Image], to: &[Image]| {
        if is_histogram {
            Way::Tables(Box::new(tables(from, to)))
        } else {
            Way::Lab(Change::between(from, to, &*method == "reinhard_lab"))
        }
    };
    let known = baseline.map(|baseline| way(baseline, &others));
    let made = images.iter().enumerate().map(|(i, image)| {
        if let Some(way) = &known {
            return way.changed(image, strength);
        }
        let at = i.min(others.len() - 1);
        way(std::slice::from_ref(image), &others[at..=at]).changed(image, strength)
    });
    let made: Vec<Image> = made.collect();
    Ok(vec![Value::from(made)])
}

/// What is done to a picture.
enum Way {
    /// A new level for every level of each channel.
    Tables(Box<[[f32; BINS]; 3]>),
    Lab(Change),
}

impl Way {
    fn changed(&self, image: &Image, strength: f64) -> Image {
        match self {
            Way::Tables(tables) => looked_up(image, tables, strength as f32),
            Way::Lab(change) => changed(image, change, strength),
        }
    }
}

/// The pixels of a picture in CIELAB.
fn labs(image: &Image) -> impl Iterator<Item = Vector> {
    let pixels = image.values.as_chunks::<3>().0.iter();
    pixels.map(|&[r, g, b]| rgb_to_lab([r, g, b].map(f64::from)))
}

/// How colors are distributed: their mean, and how they vary together.
struct Spread {
    mean: Vector,
    covariance: Matrix,
}

impl Spread {
    /// Of all pictures together, which have one size.
    fn of(images: &[Image]) -> Spread {
        let n = images
            .iter()
            .map(|i| i.width * i.height)
            .sum::<usize>()
            .max(1) as f64;
        let mut mean = [0.0; 3];
        for lab in images.iter().flat_map(labs) {
            mean = [0, 1, 2].map(|c| mean[c] + lab[c] / n);
        }
        let mut covariance = [[0.0; 3]; 3];
        for lab in images.iter().flat_map(labs) {
            let off = [0, 1, 2].map(|c| lab[c] - mean[c]);
            covariance =
                [0, 1, 2].map(|i| [0, 1, 2].map(|j| covariance[i][j] + off[i] * off[j] / n));
        }
        Spread { mean, covariance }
    }
}

/// What is done to colors: a product and a sum.
struct Change {
    by: Matrix,
    from: Vector,
    to: Vector,
}

impl Change {
    fn between(from: &[Image], to: &[Image], is_mean: bool) -> Change {
        let (from, to) = (Spread::of(from), Spread::of(to));
        let (old, new) = (&from.covariance, &to.covariance);
        let by = if is_mean {
            let deviation = |of: &Matrix, c: usize| of[c][c].sqrt().max(LEAST);
            let scale = |c: usize| deviation(new, c) / deviation(old, c);
            [0, 1, 2].map(|i| [0, 1, 2].map(|j| if i == j { scale(i) } else { 0.0 }))
        } else {
            let half = root(old, |v| v.max(0.0).sqrt().max(LEAST));
            let inverse = root(old, |v| 1.0 / v.max(0.0).sqrt().max(LEAST));
            let middle = lab::product(&lab::product(&half, new), &half);
            let middle = root(&middle, |v| v.max(0.0).sqrt());
            lab::product(&lab::product(&inverse, &middle), &inverse)
        };
        Change {
            by,
            from: from.mean,
            to: to.mean,
        }
    }
}

fn changed(image: &Image, change: &Change, strength: f64) -> Image {
    let values = labs(image).flat_map(|lab| {
        let off = [0, 1, 2].map(|c| lab[c] - change.from[c]);
        let new = [0, 1, 2].map(|i| {
            let turned: f64 = [0, 1, 2].map(|j| change.by[i][j] * off[j]).iter().sum();
            lab[i] + (turned + change.to[i] - lab[i]) * strength
        });
        lab_to_rgb(new).map(|v| v.clamp(0.0, 1.0) as f32)
    });
    Image {
        values: values.collect(),
        ..*image
    }
}

fn bin(value: f32) -> usize {
    (value * (BINS - 1) as f32).clamp(0.0, (BINS - 1) as f32) as usize
}

/// Of each channel, the share of pixels that are as dark as each level, or darker. In f32, in which
/// ComfyUI compares them.
fn shares(images: &[Image]) -> [[f32; BINS]; 3] {
    let mut counts = [[0u64; BINS]; 3];
    for image in images {
        for (i, value) in image.values.iter().enumerate() {
            counts[i % 3][bin(*value)] += 1;
        }
    }
    counts.map(|counts| {
        let mut sum = 0;
        let sums = counts.map(|count| {
            sum += count;
            sum as f32
        });
        sums.map(|below| below / sum as f32)
    })
}

/// For each level of each channel, the level that as many pixels of the others are below.
fn tables(from: &[Image], to: &[Image]) -> [[f32; BINS]; 3] {
    let (from, to) = (shares(from), shares(to));
    [0, 1, 2].map(|c| {
        from[c].map(|share| {
            let level = to[c].partition_point(|&other| other < share);
            level.min(BINS - 1) as f32 / (BINS - 1) as f32
        })
    })
}

fn looked_up(image: &Image, tables: &[[f32; BINS]; 3], strength: f32) -> Image {
    let values = image.values.iter().enumerate().map(|(i, &value)| {
        let new = tables[i % 3][bin(value)];
        (value + (new - value) * strength).clamp(0.0, 1.0)
    });
    Image {
        values: values.collect(),
        ..*image
    }
}

//! Points that move through a clip, and what a video model is shown of them: the first frame's
//! features, put where the points go. ComfyUI's `WanTrackToVideo` (ATI) and `WanMoveTrackToVideo`
//! (Wan-Move).

use super::{ClipSize, Given};
use crate::{Control, EngineError, Image, Latent, SeenFrames};

/// Points in pixels, frame by frame. ComfyUI's TRACKS.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tracks {
    /// For every frame, each point's column and row.
    pub path: Vec<Vec<[f32; 2]>>,
    /// For every frame, whether each point is seen.
    pub visible: Vec<Vec<bool>>,
}

impl Tracks {
    /// Points that are seen all the time.
    pub fn seen(path: Vec<Vec<[f32; 2]>>) -> Tracks {
        Tracks {
            visible: path.iter().map(|points| vec![true; points.len()]).collect(),
            path,
        }
    }

    /// These points and others, as far as both go.
    #[must_use]
    pub fn and(&self, others: &Tracks) -> Tracks {
        let path = self.path.iter().zip(&others.path);
        let visible = self.visible.iter().zip(&others.visible);
        Tracks {
            path: path.map(|(a, b)| [&a[..], b].concat()).collect(),
            visible: visible.map(|(a, b)| [&a[..], b].concat()).collect(),
        }
    }
}

/// How softly ATI spreads a point's features.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The higher, the nearer to the point they stay.
    pub temperature: f32,
    /// Points that count at one place.
    pub most: usize,
}

/// Frames that a track of ATI has: five seconds of 24, and the first.
const TRACK_FRAMES: usize = 121;
/// Frames under one latent frame.
const TIME: usize = 4;
/// Pixels under one latent pixel.
const SIDE: f32 = 8.0;

impl Given<'_> {
    /// A picture at the beginning, whose parts follow points through the clip. `tracks` has each
    /// point's places, at most 121 of them.
    pub fn moved(
        &self,
        start: &Image,
        tracks: &[Vec<[f32; 2]>],
        spread: Spread,
        control: &mut Control<'_>,
    ) -> Result<SeenFrames, EngineError> {
        let steps = resampled(self.size.frames).ok_or(EngineError::TrackFrames {
            frames: self.size.frames,
        })?;
        let mut latent = self.encode_between(std::slice::from_ref(start), &[], control)?;
        let format = self.vae.assumed_format();
        if let Some(format) = format {
            latent.scale_to_model(format);
        }
        let points: Vec<Point> = tracks.iter().map(|t| Point::of(t, self.size)).collect();
        let mask = spread_points(&mut latent, &points, &steps, spread);
        if let Some(format) = format {
            latent.scale_to_vae(format);
        }
        Ok(SeenFrames {
            latent,
            mask: Some(mask),
            mask_at: 0,
        })
    }

    /// Frames at the beginning, of the first of which every point takes its latent pixel along.
    pub fn dragged(
        &self,
        start: &[Image],
        tracks: &Tracks,
        strength: f32,
        control: &mut Control<'_>,
    ) -> Result<SeenFrames, EngineError> {
        let mut seen = self.first_frames(start, control)?;
        drag(&mut seen.latent, tracks, self.size, strength);
        Ok(seen)
    }
}

/// A point of ATI by the track's frames, in halves of the shorter side from the middle.
struct Point {
    places: Vec<[f32; 2]>,
    /// Frames that it is seen in.
    seen: usize,
}

impl Point {
    fn of(track: &[[f32; 2]], size: ClipSize) -> Point {
        let sides = [size.width as f32, size.height as f32];
        let short = sides[0].min(sides[1]);
        let place = |i: usize| {
            let [x, y] = track.get(i).copied().unwrap_or_default();
            [x - sides[0] / 2.0, y - sides[1] / 2.0].map(|v| v / short * 2.0)
        };
        Point {
            places: (0..TRACK_FRAMES).map(place).collect(),
            seen: track.len().min(TRACK_FRAMES),
        }
    }

    /// Its mean place over some of the track's frames as far as it is seen, and in how many it is.
    fn mean(&self, frames: &[usize]) -> ([f32; 2], f32) {
        let seen = frames.iter().filter(|&&frame| frame < self.seen);
        let (mut sum, mut n) = ([0.0; 2], 0.0);
        for &frame in seen {
            let [x, y] = self.places[frame];
            sum = [sum[0] + x, sum[1] + y];
            n += 1.0;
        }
        (sum.map(|v| v / (n + 1e-5)), n)
    }
}

/// The track's frame for every frame of a clip behind the first; `None` where that leaves a latent
/// frame incomplete.
fn resampled(frames: usize) -> Option<Vec<usize>> {
    let (all, wanted) = (TRACK_FRAMES - 1, frames - 1);
    let common = (1..=all).rev().find(|n| all % n == 0 && wanted % n == 0)?;
    let (skip, repeat) = (all / common, wanted / common);
    let taken: Vec<usize> = (1..all * repeat)
        .step_by(skip)
        .map(|i| 1 + i / repeat)
        .collect();
    taken.len().is_multiple_of(TIME).then_some(taken)
}

/// Puts the first frame's features where the points are, and says where: the mask is 0 where a
/// feature is put, in four channels.
fn spread_points(latent: &mut Latent, points: &[Point], steps: &[usize], spread: Spread) -> Latent {
    let (h, w, c) = (latent.height, latent.width, latent.channels);
    let short = h.min(w) as f32;
    let edges = [w as f32 / short, h as f32 / short];
    let along = |i: usize, n: usize, edge: f32| match n {
        1 => -edge,
        _ => -edge + 2.0 * edge * i as f32 / (n - 1) as f32,
    };
    let features: Vec<Vec<f32>> = points
        .iter()
        .map(|point| feature(latent, point.places[0], edges))
        .collect();
    let mut mask = Latent::empty(1, TIME, latent.size());
    mask.values[..h * w * TIME].fill(0.0);
    let most = spread.most.min(points.len());
    for (frame, under) in steps.chunks_exact(TIME).enumerate() {
        let means: Vec<_> = points.iter().map(|point| point.mean(under)).collect();
        for pixel in 0..h * w {
            let here = [along(pixel % w, w, edges[0]), along(pixel / w, h, edges[1])];
            let weight = |&([x, y], seen): &([f32; 2], f32)| {
                let distance = (x - here[0]).powi(2) + (y - here[1]).powi(2);
                (-distance * spread.temperature).exp() * seen.clamp(0.0, 1.0)
            };
            let mut weights: Vec<(usize, f32)> = means.iter().map(weight).enumerate().collect();
            weights.sort_by(|a, b| b.1.total_cmp(&a.1));
            weights.truncate(most);
            let all: f32 = weights.iter().map(|(_, weight)| weight).sum();
            let at = (frame + 1) * h * w + pixel;
            let values = &mut latent.values[at * c..][..c];
            for (i, value) in values.iter_mut().enumerate() {
                let put: f32 = weights
                    .iter()
                    .map(|&(p, weight)| features[p][i] * weight)
                    .sum();
                *value = put + *value * (1.0 - all.clamp(0.0, 1.0));
            }
            mask.values[at * TIME..][..TIME].fill(1.0 - all);
        }
    }
    mask
}

/// The first frame's channels at a place, between its pixels; nothing is beyond the edges.
fn feature(latent: &Latent, place: [f32; 2], edges: [f32; 2]) -> Vec<f32> {
    let (h, w, c) = (latent.height, latent.width, latent.channels);
    let at = |axis: usize, n: usize| {
        let share = (place[axis] / edges[axis]).clamp(-1.0, 1.0);
        ((share + 1.0) * n as f32 - 1.0) / 2.0
    };
    let (x, y) = (at(0, w), at(1, h));
    let mut out = vec![0.0; c];
    for (dy, dx) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let (row, column) = (y.floor() as i64 + dy, x.floor() as i64 + dx);
        let near = |v: f32, n: i64| 1.0 - (v - n as f32).abs();
        let inside = (0..h as i64).contains(&row) && (0..w as i64).contains(&column);
        if inside {
            let weight = near(y, row) * near(x, column);
            let pixel = &latent.values[(row as usize * w + column as usize) * c..][..c];
            out.iter_mut()
                .zip(pixel)
                .for_each(|(o, v)| *o += v * weight);
        }
    }
    out
}

/// Where two points come to one place, the later one counts; ComfyUI leaves that to chance.
fn drag(latent: &mut Latent, tracks: &Tracks, size: ClipSize, strength: f32) {
    let (h, w, c) = (latent.height, latent.width, latent.channels);
    let frames = tracks.path.len().min(size.frames);
    let points = tracks.path.first().map_or(0, Vec::len);
    let pixel = |frame: usize, point: usize| {
        let seen = tracks.visible.get(frame).and_then(|v| v.get(point)) == Some(&true);
        let [x, y] = *tracks.path[frame].get(point)?;
        let inside = x >= 0.0 && y >= 0.0 && x < size.width as f32 && y < size.height as f32;
        let (row, column) = ((y / SIDE) as usize, (x / SIDE) as usize);
        (seen && inside && row < h && column < w).then_some(row * w + column)
    };
    let before = latent.values.clone();
    for point in 0..points {
        // A point that is not seen at first takes the last pixel, as in ComfyUI.
        let from = pixel(0, point).unwrap_or(h * w - 1);
        for (t, frame) in (0..frames).step_by(TIME).enumerate().skip(1) {
            let Some(to) = pixel(frame, point).filter(|_| t < latent.frames) else {
                continue;
            };
            let to = (t * h * w + to) * c;
            for i in 0..c {
                let (source, target) = (before[from * c + i], before[to + i]);
                latent.values[to + i] = target + (source - target) * strength;
            }
        }
    }
}

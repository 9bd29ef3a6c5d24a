//! Ways that points go side by side, straight or bent. ComfyUI's `GenerateTracks`.

/// A way in pixels, columns before rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrackWay {
    pub start: [f64; 2],
    /// What the way bends towards (a Bézier curve); straight when `None`.
    pub mid: Option<[f64; 2]>,
    pub end: [f64; 2],
    pub frames: usize,
    /// Points side by side, and how far from each other.
    pub tracks: usize,
    pub apart: f64,
    pub pace: Pace,
}

/// How fast the points go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Even,
    Faster,
    Slower,
    /// Slowly at both ends.
    Smooth,
    /// Not at all.
    Still,
}

impl Pace {
    /// The share of the way behind a share of the time.
    fn share(self, t: f64) -> f64 {
        match self {
            Pace::Even => t,
            Pace::Faster => t * t,
            Pace::Slower => 1.0 - (1.0 - t) * (1.0 - t),
            Pace::Smooth => t * t * (3.0 - 2.0 * t),
            Pace::Still => 0.0,
        }
    }
}

impl TrackWay {
    /// The points of every frame.
    pub fn path(&self) -> Vec<Vec<[f32; 2]>> {
        (0..self.frames).map(|frame| self.points(frame)).collect()
    }

    fn points(&self, frame: usize) -> Vec<[f32; 2]> {
        let time = frame as f64 / (self.frames.max(2) - 1) as f64;
        let (at, towards) = self.at(self.pace.share(time));
        let length = towards[0].hypot(towards[1]);
        let across = if length > 0.0 {
            [-towards[1] / length, towards[0] / length]
        } else {
            [1.0, 0.0]
        };
        let point = |n: usize| {
            let offset = (n as f64 - (self.tracks as f64 - 1.0) / 2.0) * self.apart;
            [0, 1].map(|axis| (at[axis] + across[axis] * offset) as f32)
        };
        (0..self.tracks).map(point).collect()
    }

    /// Where the way is, and where it goes.
    fn at(&self, t: f64) -> ([f64; 2], [f64; 2]) {
        let (rest, start, end) = (1.0 - t, self.start, self.end);
        let Some(mid) = self.mid else {
            let way = [end[0] - start[0], end[1] - start[1]];
            return ([0, 1].map(|i| start[i] + way[i] * t), way);
        };
        let place = |i: usize| rest * rest * start[i] + 2.0 * rest * t * mid[i] + t * t * end[i];
        let tangent = |i: usize| 2.0 * rest * (mid[i] - start[i]) + 2.0 * t * (end[i] - mid[i]);
        ([0, 1].map(place), [0, 1].map(tangent))
    }
}

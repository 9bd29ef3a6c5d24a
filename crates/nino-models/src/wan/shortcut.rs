//! Resampling without weights: Wan 2.2's shortcuts, and its patchify.

use crate::stream::fold_axis;
use nino_graph::{Graph, Node, PadMode, ReduceFn};

/// Mean over groups of (channel, frame, row, column): `[b, t, h, w, c]` → `[b, t/ft, h/fs, w/fs,
/// cout]`. If `ft` does not divide the number of frames, zeros are prepended.
pub(super) fn avg_down(g: &mut Graph, x: Node, ft: usize, fs: usize, cout: usize) -> Node {
    let padding = (ft - g.shape(x)[1] % ft) % ft;
    let x = g.pad(x, 1, padding, 0, PadMode::Constant(0.0));
    let s = g.shape(x);
    let (b, t, h, w, c) = (s[0], s[1], s[2], s[3], s[4]);
    let (t, h, w) = (t / ft, h / fs, w / fs);
    let x = g.reshape(x, [b * t * ft, h * fs, w * fs, c]);
    let x = g.pixel_unshuffle(x, fs); // [b·t·ft, h, w, c·fs·fs]
    let x = g.reshape(x, [b * t, ft, h * w * c, fs * fs]);
    let x = fold_axis(g, x, 1, 3); // [b·t, 1, h·w·c, ft·fs·fs]
    let group = c * ft * fs * fs / cout;
    let x = g.reshape(x, [b * t * h * w, cout, group]);
    let x = g.reduce(x, 2, ReduceFn::Mean);
    g.reshape(x, [b, t, h, w, cout])
}

/// The transpose of [`avg_down`]: every output takes the channel of its group. `[b, t, h, w, c]` →
/// `[b, t·ft, h·fs, w·fs, cout]`.
pub(super) fn dup_up(g: &mut Graph, x: Node, ft: usize, fs: usize, cout: usize) -> Node {
    let s = g.shape(x);
    let (b, t, h, w, c) = (s[0], s[1], s[2], s[3], s[4]);
    let repeats = cout * ft * fs * fs / c;
    let x = g.reshape(x, [b * t * h * w, c, 1]);
    let x = g.concat(&vec![x; repeats], 2); // [b·t·h·w, c, repeats], read as (cout, ft, fs, fs)
    let x = g.reshape(x, [b * t, h * w, cout, ft, fs * fs]);
    let x = g.permute(x, &[0, 3, 1, 2, 4]); // [b·t, ft, h·w, cout, fs·fs]
    let x = g.reshape(x, [b * t * ft, h, w, cout * fs * fs]);
    let x = g.pixel_shuffle(x, fs);
    g.reshape(x, [b, t * ft, h * fs, w * fs, cout])
}

/// `[b, t, h·r, w·r, c]` → `[b, t, h, w, c·r·r]`, columns before rows.
pub(super) fn patchify(g: &mut Graph, x: Node, r: usize) -> Node {
    if r == 1 {
        return x;
    }
    let s = g.shape(x);
    let (b, t, h, w, c) = (s[0], s[1], s[2] / r, s[3] / r, s[4]);
    let x = g.reshape(x, [b * t * h, r, w, r, c]);
    let x = g.permute(x, &[0, 2, 4, 3, 1]); // [b·t·h, w, c, r (w), r (h)]
    g.reshape(x, [b, t, h, w, c * r * r])
}

/// The inverse of [`patchify`].
pub(super) fn unpatchify(g: &mut Graph, x: Node, r: usize) -> Node {
    if r == 1 {
        return x;
    }
    let s = g.shape(x);
    let (b, t, h, w, c) = (s[0], s[1], s[2], s[3], s[4] / (r * r));
    let x = g.reshape(x, [b * t * h, w, c, r, r]);
    let x = g.permute(x, &[0, 4, 1, 3, 2]); // [b·t·h, r (h), w, r (w), c]
    g.reshape(x, [b, t, h * r, w * r, c])
}

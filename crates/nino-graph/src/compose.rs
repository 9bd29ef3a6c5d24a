//! Layers that models record by one call and that are several ops, or none of their own.

use crate::{Graph, Node, NormKind, Normalize, Over, Prologue, Stats};

impl Graph {
    /// Statistics and application; the rewriter fuses the second into a following conv or linear.
    #[track_caller]
    pub fn group_norm(
        &mut self,
        x: Node,
        groups: usize,
        weight: Node,
        bias: Node,
        eps: f32,
    ) -> Node {
        let stats = self.push(Stats {
            x,
            over: Over::Groups(groups),
            kind: NormKind::Layer,
            eps,
        });
        let norm = Prologue {
            stats,
            weight: Some(weight),
            bias: Some(bias),
            act: None,
        };
        self.push(Normalize { x, norm })
    }

    /// Equal parts along an axis.
    #[track_caller]
    pub fn split(&mut self, x: Node, axis: usize, parts: usize) -> Vec<Node> {
        let size = self.shape(x).get(axis).copied().unwrap_or(0);
        if parts == 0 || !size.is_multiple_of(parts) {
            // Recorded as the slice it cannot be, so that the mistake names this caller.
            return vec![self.slice(x, axis, size, size); parts.max(1)];
        }
        let each = size / parts;
        (0..parts)
            .map(|i| self.slice(x, axis, i * each, (i + 1) * each))
            .collect()
    }

    /// `[b, h, w, c·r·r]` → `[b, h·r, w·r, c]`, channels ordered as PyTorch's `pixel_shuffle`.
    #[track_caller]
    pub fn pixel_shuffle(&mut self, x: Node, r: usize) -> Node {
        let s = self.shape(x);
        let (&[b, h, w, c], true) = (&s[..], r > 0) else {
            return self.mistake("pixel_shuffle", format!("x is {s}, factor {r}"));
        };
        if !c.is_multiple_of(r * r) {
            return self.mistake("pixel_shuffle", format!("x is {s}, factor {r}"));
        }
        let c = c / (r * r);
        let x = self.reshape(x, [b, h, w, c, r, r]);
        let x = self.permute(x, &[0, 1, 4, 2, 5, 3]); // [b, h, r, w, r, c]
        self.reshape(x, [b, h * r, w * r, c])
    }

    /// `[b, h·r, w·r, c]` → `[b, h, w, c·r·r]`, the inverse of [`Graph::pixel_shuffle`].
    #[track_caller]
    pub fn pixel_unshuffle(&mut self, x: Node, r: usize) -> Node {
        let s = self.shape(x);
        let (&[b, h, w, c], true) = (&s[..], r > 0) else {
            return self.mistake("pixel_unshuffle", format!("x is {s}, factor {r}"));
        };
        if !h.is_multiple_of(r) || !w.is_multiple_of(r) {
            return self.mistake("pixel_unshuffle", format!("x is {s}, factor {r}"));
        }
        let x = self.reshape(x, [b, h / r, r, w / r, r, c]);
        let x = self.permute(x, &[0, 1, 3, 5, 2, 4]); // [b, h/r, w/r, c, r, r]
        self.reshape(x, [b, h / r, w / r, c * r * r])
    }
}

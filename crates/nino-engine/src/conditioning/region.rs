//! Where and when a prompt counts.

use crate::Mask;
use std::sync::Arc;

/// Where a prompt counts in the picture, how much, and during which part of the sampling. ComfyUI's
/// `ConditioningSetArea`, `ConditioningSetMask` and `ConditioningSetTimestepRange`.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// The part of the picture the model sees; all of it when `None`.
    pub area: Option<Area>,
    /// Weight beside other prompts at the same place.
    pub strength: f32,
    /// Weights of every place, of any size, times `mask_strength`.
    pub mask: Option<Arc<Mask>>,
    pub mask_strength: f32,
    /// Whether the model sees only the part of the picture that the mask covers. It replaces
    /// `area`.
    pub mask_bounds: bool,
    /// Shares of the sampling, from 0 to 1, between which it counts.
    pub percent: (f64, f64),
}

impl Default for Region {
    fn default() -> Region {
        Region {
            area: None,
            strength: 1.0,
            mask: None,
            mask_strength: 1.0,
            mask_bounds: false,
            percent: (0.0, 1.0),
        }
    }
}

impl Region {
    /// Whether it is everywhere and always, and weighs as much as any other.
    pub(crate) fn is_everything(&self) -> bool {
        *self == Region::default()
    }

    /// Whether the model sees only a part of the picture.
    pub(crate) fn has_area(&self) -> bool {
        self.area.is_some() || (self.mask_bounds && self.mask.is_some())
    }
}

/// A rectangle of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Area {
    /// A rectangle in latent pixels.
    Latent {
        x: usize,
        y: usize,
        width: usize,
        height: usize,
    },
    /// A rectangle in shares of the picture's sides.
    Share {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
    },
}

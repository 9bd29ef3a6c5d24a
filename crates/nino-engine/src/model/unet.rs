//! UNets that are changed inside: FreeU, HyperTile, and activations that are made smaller during a
//! part of the sampling (Kohya's deep shrink). ComfyUI's `FreeU`, `FreeU_V2`, `HyperTile`,
//! `PatchModelAddDownscale` and `SelfAttentionGuidance`.

use crate::{DiffusionModel, EngineError};
use nino_models::Denoiser;
use nino_models::unet::{Config, FreeU, HyperTile, Shrink};
use nino_sample::{Correction, SelfAttention};

/// Activations that are made smaller, each between two noise levels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shrinks(Vec<(Shrink, (f64, f64))>);

impl Shrinks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that are on at a noise level.
    pub(crate) fn at(&self, sigma: f64) -> Vec<Shrink> {
        let all = self.0.iter();
        let on = all.filter(|(_, (start, end))| (*end..=*start).contains(&sigma));
        on.map(|(shrink, _)| *shrink).collect()
    }

    /// Every list of those that are on at some noise level; the one that takes longest is the
    /// first.
    pub(crate) fn phases(&self) -> Vec<Vec<Shrink>> {
        let mut ends: Vec<f64> = self.0.iter().flat_map(|(_, (a, b))| [*a, *b]).collect();
        ends.extend([0.0, f64::MAX]);
        ends.sort_by(f64::total_cmp);
        let between = ends.windows(2).map(|w| w[0] + (w[1] - w[0]) / 2.0);
        let levels: Vec<f64> = ends.iter().copied().chain(between).collect();
        let mut phases: Vec<Vec<Shrink>> = Vec::new();
        for phase in levels.into_iter().map(|level| self.at(level)) {
            if !phases.contains(&phase) {
                phases.push(phase);
            }
        }
        phases.sort_by_key(Vec::len);
        phases
    }
}

impl DiffusionModel {
    /// The same UNet with the factors of FreeU. Other networks have none of its blocks and are an
    /// error.
    pub fn with_freeu(&self, freeu: FreeU) -> Result<DiffusionModel, EngineError> {
        self.with_unet("FreeU", |config| config.freeu.push(freeu))
    }

    /// The same UNet with self-attention in tiles.
    pub fn with_hypertile(&self, tile: HyperTile) -> Result<DiffusionModel, EngineError> {
        self.with_unet("HyperTile", |config| config.hypertile = Some(tile))
    }

    /// The same UNet with activations that are made smaller from the first share of the sampling to
    /// the second, by the noise levels it has now.
    pub fn with_shrink(
        &self,
        mut shrink: Shrink,
        (start, end): (f64, f64),
    ) -> Result<DiffusionModel, EngineError> {
        let mut model = self.with_unet("PatchModelAddDownscale", |_| {})?;
        if !self.freeu().is_empty() {
            return Err(EngineError::ShrinkAfterFreeU);
        }
        // The first one's way to enlarge is tried first, whether it is on or not.
        if let Some((first, _)) = self.shrinks.0.first() {
            shrink.larger = first.larger;
        }
        let sigmas = [start, end].map(|percent| self.sampling.percent_to_sigma(percent));
        model.shrinks.0.push((shrink, (sigmas[0], sigmas[1])));
        Ok(model)
    }

    /// The same UNet, guided away from what it makes of its own negative prediction, blurred where
    /// it looks most.
    pub fn with_self_attention(
        &self,
        guidance: SelfAttention,
    ) -> Result<DiffusionModel, EngineError> {
        let mut model = self.with_unet("self-attention guidance", |_| {})?;
        if self.is_watched() {
            let other = "itself: a model is guided so only once";
            return Err(EngineError::SelfAttention { other });
        }
        let guidance = Correction::SelfAttention(guidance);
        model.corrections.push(guidance);
        Ok(model)
    }

    /// Whether it is watched what its places look at.
    pub(crate) fn is_watched(&self) -> bool {
        let watched = |c: &Correction| matches!(c, Correction::SelfAttention(_));
        self.corrections.iter().any(watched)
    }

    fn with_unet(
        &self,
        what: &'static str,
        change: impl FnOnce(&mut Config),
    ) -> Result<DiffusionModel, EngineError> {
        let mut model = self.clone();
        let Denoiser::Unet(config) = &mut model.net else {
            return Err(EngineError::UnetOnly {
                model: self.name.clone(),
                what,
            });
        };
        change(config);
        Ok(model)
    }

    pub(crate) fn shrinks(&self) -> &Shrinks {
        &self.shrinks
    }

    pub(super) fn freeu(&self) -> &[FreeU] {
        match &self.net {
            Denoiser::Unet(config) => &config.freeu,
            _ => &[],
        }
    }

    pub(crate) fn hypertile(&self) -> Option<HyperTile> {
        match &self.net {
            Denoiser::Unet(config) => config.hypertile,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nino_models::unet::Resize;

    #[test]
    fn phases_are_all_that_can_be_on() {
        let shrink = |block| Shrink::new(block, 2.0, true, [Resize::Area; 2]);
        let (one, two) = (shrink(1), shrink(2));
        let all = Shrinks(vec![(one, (f64::MAX, 5.0)), (two, (7.0, 3.0))]);
        assert_eq!(all.at(8.0), [one]);
        assert_eq!(all.at(5.0), [one, two]);
        assert_eq!(all.at(3.0), [two]);
        let phases = all.phases();
        assert_eq!(phases.len(), 4, "{phases:?}");
        assert!(phases[0].is_empty() && phases[3].len() == 2);
        assert_eq!(Shrinks::default().phases(), [Vec::new()]);
        let always = Shrinks(vec![(one, (f64::MAX, 0.0))]);
        assert_eq!(always.phases(), [[one]]);
    }
}

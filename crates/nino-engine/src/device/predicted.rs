//! A card of the table as a device: plans are made for it, nothing runs on it, and its speed is
//! predicted.
//!
//! The prediction is first-order: an op takes the longer of its arithmetic at a share of the card's
//! peak and its bytes at a share of its bandwidth. For AMD's cards the shares are those of our own
//! kernels by AMD's compiler (`Arch::shares`); for others what programs reach in whole networks.
//! They rank cards and settings; times stay predictions until an owner runs `nino bench`.

use super::cards::{Card, Figure, Source};
use super::{Budget, BudgetTerm, Limit};
use nino_dtype::DType;
use nino_gpu::{Caps, Tier};
use nino_graph::{
    Device, ExecError, Kind, Limits, Load, ParamSource, Plan, Rates, Rewrites, Session, Weights,
};
use std::sync::Arc;

/// The share of the maker's peak that plain arithmetic reaches: stable-diffusion.cpp's Vulkan
/// kernels reach 0.3 with SDXL on an RX 6600 (leejet/stable-diffusion.cpp#761) and koboldcpp's 0.35
/// on an RX 580 (LostRuins/koboldcpp#1667).
const PLAIN: f64 = 0.4;

/// The share that matrix units reach: nino's WGSL products 0.24 on an H200, ROCm's libraries 0.38
/// with Flux on a 7900 XT (comfyanonymous/ComfyUI#7223) and 0.41 on a 9070 XT (ROCm#4443).
const MATRIX: f64 = 0.3;

/// The part of what AMD's compiler lets expect that a card is taken to reach: nothing of it was
/// measured, and caches, clocks and banks are not in those numbers.
const OF_COMPILED: f64 = 0.67;

/// How many times as fast products of bytes are: 2.6 by AMD's compiler on RDNA 2 (docs/amd.md),
/// less what it does not tell.
const BYTES: f64 = 2.0;

/// The share of a rate that somebody measured for arithmetic or memory alone.
const OF_MEASURED: f64 = 0.7;

/// The share of the maker's bandwidth, and of a bus's.
const MEMORY: f64 = 0.8;
const BUS: f64 = 0.7;

/// A card that is not in this machine.
pub(super) struct Predicted {
    card: &'static Card,
    caps: Caps,
}

impl Predicted {
    pub(super) fn new(card: &'static Card, tier: Tier) -> Predicted {
        Predicted {
            card,
            caps: card.caps(tier),
        }
    }

    /// The memory that plans may use, as on a card that is there and shows a display.
    pub(super) fn budget(&self) -> Budget {
        let of = self.card.memory;
        let bytes = (of as f64 * Budget::FRACTION) as u64;
        let limit = Limit::VulkanHeaps { of };
        Budget {
            bytes,
            terms: vec![BudgetTerm { limit, bytes }],
        }
    }

    /// How fast the card does the kinds of op in `loads`.
    pub(super) fn rates(&self, loads: &[&Load]) -> Rates {
        let nominal = self.caps.rates();
        let bandwidth = reached(self.card.bandwidth, MEMORY);
        // Where memory is one, what waits is copied within it.
        let bus = self.card.bus.map_or(bandwidth / 2.0, |bus| bus * BUS);
        let kinds = loads.iter().flat_map(|load| load.work.kinds());
        let kinds = kinds.map(|(kind, _)| kind).filter(|k| *k != Kind::Other);
        Rates {
            copy_bytes: bandwidth,
            flops: kinds.map(|kind| (kind, self.flops(kind))).collect(),
            any_flops: reached(self.card.f32_flops, PLAIN),
            host_bytes: bus,
            read_bytes: bus,
            ..nominal
        }
    }

    /// Arithmetic a second of a kind of op.
    fn flops(&self, kind: Kind) -> f64 {
        let shares = self.card.arch.shares();
        let (x, share) = match kind {
            Kind::Conv3x3 { x } => (x, shares.map(|s| s.conv3x3)),
            Kind::Linear { x, .. } if x == DType::BF16 => (x, shares.map(|s| s.linear_bf16)),
            Kind::Attention { x } if x == DType::BF16 => (x, shares.map(|s| s.attention_bf16)),
            Kind::Linear { x, .. } => (x, shares.map(|s| s.linear)),
            Kind::Attention { x } => (x, shares.map(|s| s.attention)),
            Kind::Other => return reached(self.card.f32_flops, PLAIN),
        };
        // NVIDIA's drivers take PTX, and so no bf16 as f16.
        let converts = self.card.arch.is_amd() && self.caps.limits().halves;
        let halved = !matches!(kind, Kind::Conv3x3 { .. }) && converts;
        let takes = x == DType::F16 || (x == DType::BF16 && halved);
        let on_matrices = takes && self.caps.tier >= Tier::Coop;
        let matrix = self.card.matrix_flops.filter(|_| on_matrices);
        // Kernels of a card with matrix units were not looked at where these are not used.
        let compiled = share.filter(|_| self.card.matrix_flops.is_none() || matrix.is_some());
        let figure = matrix.unwrap_or(self.card.f32_flops);
        let of_bytes = matches!(kind, Kind::Linear { w: DType::Q8_0, .. });
        let times = if of_bytes && self.caps.limits().int8 {
            BYTES
        } else {
            1.0
        };
        times
            * match (compiled, matrix) {
                (Some(share), _) => figure.per_second * share * OF_COMPILED,
                (None, Some(_)) => reached(figure, MATRIX),
                (None, None) => reached(figure, PLAIN),
            }
    }

    fn absent(&self) -> ExecError {
        ExecError::Unsupported {
            op: "a run".to_owned(),
            device: self.card.model.to_owned(),
            why: "it is not in this machine and can only be planned for".to_owned(),
        }
    }
}

fn reached(figure: Figure, of_makers: f64) -> f64 {
    figure.per_second
        * match figure.source {
            Source::Maker => of_makers,
            Source::Measured(_) => OF_MEASURED,
        }
}

impl Device for Predicted {
    fn name(&self) -> String {
        self.card.name.to_owned()
    }

    fn limits(&self) -> Limits {
        self.caps.limits()
    }

    fn rates(&self) -> Rates {
        self.caps.rates()
    }

    fn rewrites(&self) -> Rewrites {
        self.caps.rewrites()
    }

    fn activation_dtype(&self) -> DType {
        self.caps.activation_dtype()
    }

    fn favors_large_ops(&self) -> bool {
        true
    }

    fn load(&self, _: &[&Plan], _: Arc<dyn ParamSource>) -> Result<Weights, ExecError> {
        Err(self.absent())
    }

    fn sessions(&self, _: &[Arc<Plan>], _: &Weights) -> Result<Vec<Box<dyn Session>>, ExecError> {
        Err(self.absent())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_is_multiplied_nearly_as_fast_as_f16() {
        let kinds: [fn(DType) -> Kind; 2] =
            [|x| Kind::Linear { x, w: x }, |x| Kind::Attention { x }];
        for name in [
            "8060s-128gb",
            "rx7900xtx",
            "rx9070xt",
            "rx6600",
            "rx580-8gb",
        ] {
            let card = Card::find(name).unwrap();
            let card = Predicted::new(card, card.tier);
            for kind in kinds {
                let [half, brain] = [DType::F16, DType::BF16].map(|x| card.flops(kind(x)));
                assert!(
                    (0.7..1.2).contains(&(brain / half)),
                    "{name}: {brain} {half}"
                );
            }
        }
    }

    #[test]
    fn bytes_are_multiplied_faster_where_that_is_an_instruction() {
        let kind = |w| Kind::Linear { x: DType::F16, w };
        for (name, gain) in [("rx6600", BYTES), ("rx5700xt", 1.0), ("rx580-8gb", 1.0)] {
            let card = Card::find(name).unwrap();
            let card = Predicted::new(card, card.tier);
            let [bytes, halves] = [DType::Q8_0, DType::F16].map(|w| card.flops(kind(w)));
            assert!(
                (bytes / halves - gain).abs() < 1e-9,
                "{name}: {bytes} {halves}"
            );
        }
    }
}

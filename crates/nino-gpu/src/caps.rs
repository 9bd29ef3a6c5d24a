//! What kernels are chosen by. It is a plain value: plans can be lowered for a device that is not
//! there (`kernels.rs`).

use nino_dtype::DType;
use nino_graph::{Limits, Rates, Rewrites, TakesGate};
use nino_ptx::Target;

use crate::kernel::View;
use crate::ops::gemm::{WINOGRAD_BYTES, takes_gate};
use crate::tuning::Tiles;
use crate::{AdapterInfo, AdapterKind, Tier};

/// Which architecture's measurements choose the tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// NVIDIA, Intel, Apple, software: tiles as measured on NVIDIA.
    #[default]
    Other,
    /// AMD before RDNA (Polaris, Vega): subgroups of 64 lanes only.
    Gcn,
    /// AMD RDNA 1 and 2: subgroups of 32 or 64 lanes, no matrix instructions.
    Rdna,
    /// AMD RDNA 3 and later: matrix instructions of 16 × 16 × 16.
    RdnaMatrix,
    /// AMD RDNA 4: such instructions at twice the rate, and no lane holds what another holds.
    Rdna4,
}

/// The vendor's number on the PCI bus.
pub(crate) const AMD: u32 = 0x1002;

/// Navi 48 and Navi 44 on the PCI bus.
const RDNA4: [std::ops::RangeInclusive<u32>; 2] = [0x7550..=0x755f, 0x7590..=0x759f];

impl Arch {
    /// Told by the vendor's and the device's number and by what it can do, since drivers name the
    /// same chip differently.
    pub fn of(vendor_id: u32, device_id: u32, subgroup_min: u32, coop_size: Option<u32>) -> Arch {
        let rdna4 = RDNA4.iter().any(|ids| ids.contains(&device_id));
        match (vendor_id, coop_size) {
            (AMD, Some(_)) if rdna4 => Arch::Rdna4,
            (AMD, Some(_)) => Arch::RdnaMatrix,
            (AMD, None) if subgroup_min >= 64 => Arch::Gcn,
            (AMD, None) => Arch::Rdna,
            _ => Arch::Other,
        }
    }

    pub const fn is_amd(self) -> bool {
        !matches!(self, Arch::Other)
    }

    /// AMD's with matrix instructions.
    pub const fn has_matrices(self) -> bool {
        matches!(self, Arch::RdnaMatrix | Arch::Rdna4)
    }
}

/// What a device can do, as far as plans and kernels depend on it.
#[derive(Clone, Debug)]
pub struct Caps {
    pub kind: AdapterKind,
    pub arch: Arch,
    pub tier: Tier,
    /// Side of the f16-to-f32 cooperative matrices used, if there are any.
    pub coop_size: Option<u32>,
    pub subgroup_min: u32,
    pub subgroup_max: u32,
    /// A kernel may ask for a subgroup size between the two.
    pub subgroup_choice: bool,
    pub max_workgroup_bytes: u32,
    pub max_binding_bytes: u64,
    pub max_buffer_bytes: u64,
    /// What the offsets of bindings are multiples of, at least 16.
    pub offset_alignment: u64,
    /// Products of four signed bytes at a time are an instruction.
    pub dot_products: bool,
    /// Kernels get their parameters as immediates rather than in a uniform.
    pub immediates: bool,
    /// What kernels in PTX may use, where the device takes them.
    pub ptx: Option<Target>,
    /// Tiles measured on this device.
    pub tiles: Tiles,
}

/// Rows from which block weights are expanded before a product.
const EXPAND_ROWS: usize = 256;

impl Caps {
    /// Of an adapter at a tier, before it is known how kernels get to it.
    pub(crate) fn new(info: &AdapterInfo, limits: &wgpu::Limits, tier: Tier) -> Caps {
        Caps {
            kind: info.kind,
            arch: Arch::of(
                info.vendor_id,
                info.device_id,
                info.subgroup_min,
                info.coop_size,
            ),
            tier,
            coop_size: info.coop_size,
            subgroup_min: info.subgroup_min,
            subgroup_max: info.subgroup_max,
            subgroup_choice: false,
            max_workgroup_bytes: info.max_workgroup_bytes,
            max_binding_bytes: limits.max_storage_buffer_binding_size,
            max_buffer_bytes: limits.max_buffer_size,
            offset_alignment: u64::from(limits.min_storage_buffer_offset_alignment).max(16),
            dot_products: info.dot_products == Some(true),
            immediates: false,
            ptx: None,
            tiles: Tiles::default(),
        }
    }

    /// Lanes of a subgroup, as cooperative kernels are specialized for it. Where kernels may ask,
    /// 32: matrices then take the fewest registers a wave, and it is the size they were measured
    /// at. Where only the driver may choose, compute kernels get the larger size (RADV).
    pub(crate) fn subgroup_size(&self) -> u32 {
        if self.subgroup_choice && (self.subgroup_min..=self.subgroup_max).contains(&32) {
            32
        } else {
            self.subgroup_max
        }
    }

    /// Whether kernels may use Hopper's matrix instructions.
    pub(crate) fn has_wgmma(&self) -> bool {
        self.tier >= Tier::Coop && self.ptx == Some(Target::Sm90a)
    }

    /// Whether linear layers with `Q8_0` weights round their rows to 8 bits, where there are many.
    /// Matrix units multiply f16 faster than vectors multiply bytes.
    pub(crate) fn rounds_rows(&self) -> bool {
        self.dot_products && self.tier < Tier::Coop
    }

    /// Whether linear layers of many bf16 rows take them as f16, which is all that matrix units are
    /// programmed for here.
    pub(crate) fn halves_rows(&self) -> bool {
        self.tier >= Tier::Coop && self.ptx.is_none()
    }

    /// Elements between the aligned start of a view's binding and element 0 of its tensor: what
    /// a kernel adds to an element index. Wraps below zero when the part starts later.
    pub(crate) fn base(&self, view: &View<'_>) -> u32 {
        let skipped = view.offset % self.offset_alignment;
        let elements = skipped / view.dtype.block_bytes() as u64 * view.dtype.block_len() as u64;
        (elements.wrapping_sub(view.first)) as u32
    }

    /// What plans for such a device keep to.
    pub fn limits(&self) -> Limits {
        let align = self.offset_alignment.max(256) as usize;
        // A binding reaches from an aligned offset to a whole 16-byte word.
        let max_binding = self.max_binding_bytes as usize - 16;
        let page = (self.max_buffer_bytes as usize).min(1 << 40) / align * align;
        Limits {
            align,
            max_binding: max_binding / align * align,
            page,
            // What lies over pages passes through windows in pieces that keep a device busy.
            window: page / 4,
            max_step_flops: match self.kind {
                AdapterKind::Software => None,
                AdapterKind::Discrete if self.tier >= Tier::Coop => Some(4e12),
                AdapterKind::Discrete => Some(4e11),
                // A tenth of a second on the slowest of them (780M), and enough workgroups to
                // fill the largest (8060S).
                _ if self.tier >= Tier::Coop => Some(1e12),
                _ => Some(1e11),
            },
            // A product decodes a weight once for every tile of rows: above two tiles it is quicker
            // to do it once for all.
            expand_rows: (self.tier >= Tier::F16).then_some(EXPAND_ROWS),
            packs_params: true,
            int8: self.rounds_rows(),
            halves: self.halves_rows(),
            ..Limits::default()
        }
    }

    /// The nominal rates of a device of its kind.
    pub fn rates(&self) -> Rates {
        match self.kind {
            // It computes as a CPU does; what waits on the host is in memory, not in a file.
            AdapterKind::Software => Rates {
                host_bytes: 5e9,
                read_bytes: 5e9,
                ..Rates::cpu()
            },
            _ => Rates::gpu(),
        }
    }

    /// Which ops are fused for such a device.
    pub fn rewrites(&self) -> Rewrites {
        // A row norm inside a product would be redone for every tile of columns. Where matrices are
        // fast, so would a group norm: the product waits for it more than a pass over memory costs.
        // Winograd's kernel would do it again for every 32 channels that it makes.
        Rewrites {
            norm_into_linear: false,
            norm_into_conv: self.tier < Tier::Coop && self.max_workgroup_bytes < WINOGRAD_BYTES,
            gate_into_linear: self.has_wgmma().then_some(takes_gate as TakesGate),
            split_linear: Some(self.limits().align),
            factor_into_linear: true,
            product_into_linear: true,
            epilogue_into_norm: true,
            ..Rewrites::ALL
        }
    }

    pub fn activation_dtype(&self) -> DType {
        if self.tier >= Tier::F16 {
            DType::F16
        } else {
            DType::F32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_of_amd_are_told_apart() {
        for (device, lanes, coop, arch) in [
            (0x67df, 64, None, Arch::Gcn),            // RX 580
            (0x73ff, 32, None, Arch::Rdna),           // RX 6600
            (0x744c, 32, Some(16), Arch::RdnaMatrix), // RX 7900 XTX
            (0x7550, 32, Some(16), Arch::Rdna4),      // RX 9070 XT
            (0x7590, 32, Some(16), Arch::Rdna4),      // RX 9060 XT
            // A driver without matrices for it.
            (0x7550, 32, None, Arch::Rdna),
        ] {
            assert_eq!(Arch::of(AMD, device, lanes, coop), arch, "{device:x}");
        }
        assert_eq!(Arch::of(0x10de, 0x7550, 32, Some(16)), Arch::Other);
    }
}

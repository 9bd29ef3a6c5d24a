//! What AMD's chips and cards are made of: one table of constants with their sources.
//!
//! Sources: AMD's instruction set guides and whitepapers of GCN 3, RDNA, RDNA 2, RDNA 3 and RDNA 4
//! (SIMDs, registers, LDS, issue rates); Mesa `ac_gpu_info.c` (waves, registers of the larger
//! chips); AMD's product pages (units, clocks, bandwidth). Latencies and the bytes a second-level
//! cache gives per clock are rounded from published micro-benchmarks (Chips and Cheese) and are the
//! weakest numbers here.

/// A family of chips as the driver names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chip {
    pub family: &'static str,
    /// SIMDs that share LDS: of a compute unit (GCN) or of a pair of them (RDNA, in the mode that
    /// the driver runs compute in).
    pub simds: u32,
    /// Compute units, as cards are sold by, that share LDS.
    pub units_shared: u32,
    pub lds: u32,
    /// Vector registers of a SIMD, in registers of waves of 64 lanes.
    pub registers: u32,
    pub most_waves: u32,
    /// Cycles that a SIMD is busy with a vector instruction of 64 lanes.
    pub cycles64: f64,
    /// Cycles of a 16 × 16 × 16 matrix product.
    pub matrix_cycles: f64,
    /// Bytes a cycle that LDS and the first-level caches give to the SIMDs that share LDS.
    pub lds_bytes: f64,
    pub cache_bytes: f64,
    /// Cycles until LDS, and memory that is in the second-level cache, answer.
    pub lds_latency: f64,
    pub memory_latency: f64,
}

const GCN: Chip = Chip {
    family: "polaris10",
    simds: 4,
    units_shared: 1,
    lds: 64 << 10,
    registers: 256,
    most_waves: 8,
    cycles64: 4.0,
    matrix_cycles: 0.0,
    lds_bytes: 128.0,
    cache_bytes: 64.0,
    lds_latency: 64.0,
    memory_latency: 350.0,
};

const RDNA: Chip = Chip {
    family: "navi10",
    simds: 4,
    units_shared: 2,
    lds: 128 << 10,
    registers: 512,
    most_waves: 20,
    cycles64: 2.0,
    matrix_cycles: 0.0,
    lds_bytes: 256.0,
    cache_bytes: 256.0,
    lds_latency: 64.0,
    memory_latency: 500.0,
};

/// Every family that is compiled for.
pub const CHIPS: [Chip; 8] = [
    GCN,
    Chip {
        family: "vega10",
        most_waves: 10,
        ..GCN
    },
    RDNA,
    Chip {
        family: "navi21",
        most_waves: 16,
        ..RDNA
    },
    Chip {
        family: "navi23",
        most_waves: 16,
        ..RDNA
    },
    Chip {
        family: "navi31",
        registers: 768,
        most_waves: 16,
        matrix_cycles: 32.0,
        ..RDNA
    },
    Chip {
        family: "gfx1151",
        registers: 768,
        most_waves: 16,
        matrix_cycles: 32.0,
        ..RDNA
    },
    Chip {
        family: "gfx1201",
        registers: 768,
        most_waves: 16,
        matrix_cycles: 16.0,
        ..RDNA
    },
];

/// A card that people own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Card {
    pub name: &'static str,
    pub family: &'static str,
    pub compute_units: u32,
    /// Cycles a second under load.
    pub clock: f64,
    /// Bytes a second of memory, by its data sheet.
    pub bandwidth: f64,
    /// Bytes a cycle of the second-level cache.
    pub l2_bytes: f64,
    /// The part of the matrix units' rate that a program of nothing else was seen to reach.
    pub matrix_share: f64,
}

/// The cards that are predicted, at least one of every family.
pub const CARDS: [Card; 9] = [
    card("RX 580", "polaris10", 36, 1.34e9, 256e9, 1024.0),
    card("RX Vega 64", "vega10", 64, 1.5e9, 484e9, 1024.0),
    card("RX 5700 XT", "navi10", 40, 1.85e9, 448e9, 2048.0),
    card("RX 6800 XT", "navi21", 72, 2.25e9, 512e9, 2048.0),
    card("RX 6600", "navi23", 28, 2.49e9, 224e9, 1024.0),
    card("RX 7900 XTX", "navi31", 96, 2.5e9, 960e9, 3072.0),
    Card {
        // Measured by others: 36 to 37 TFLOP/s of matrices against 59 by the data sheet
        // (AMD-AGI/TraceLens pull request 943).
        matrix_share: 0.62,
        ..card("Radeon 8060S", "gfx1151", 40, 2.9e9, 256e9, 2048.0)
    },
    card("RX 9070 XT", "gfx1201", 64, 2.97e9, 640e9, 2048.0),
    // Navi 44 (gfx1200), which differs from Navi 48 in its size.
    card("RX 9060 XT", "gfx1201", 32, 3.13e9, 320e9, 1024.0),
];

const fn card(
    name: &'static str,
    family: &'static str,
    compute_units: u32,
    clock: f64,
    bandwidth: f64,
    l2_bytes: f64,
) -> Card {
    Card {
        name,
        family,
        compute_units,
        clock,
        bandwidth,
        l2_bytes,
        matrix_share: 1.0,
    }
}

/// How a kernel fills a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Waves of a workgroup.
    pub group_waves: u32,
    /// Workgroups at once on the SIMDs that share LDS.
    pub groups: u32,
    /// Waves at once on a SIMD, rounded down.
    pub waves: u32,
}

impl Chip {
    pub fn named(family: &str) -> Option<Chip> {
        CHIPS.into_iter().find(|c| c.family == family)
    }

    pub fn cards(&self) -> impl Iterator<Item = Card> {
        let family = self.family;
        CARDS.into_iter().filter(move |c| c.family == family)
    }

    /// Computed here rather than read from the driver, which without hardware assumes the smaller
    /// register file for every chip and rounds parts of workgroups up.
    pub fn occupancy(&self, vgprs: u32, lds: u32, lanes: u32, group_lanes: u32) -> Occupancy {
        let group_waves = group_lanes.div_ceil(lanes.max(1)).max(1);
        let per_wave = vgprs.max(1) * lanes / 32;
        let by_registers = (self.registers * 2 / per_wave.max(1)).min(self.most_waves);
        // Waves of a group spread over the SIMDs as evenly as they can.
        let by_registers = by_registers * self.simds / group_waves;
        let by_lds = self.lds.checked_div(lds).unwrap_or(u32::MAX);
        let groups = by_registers.min(by_lds);
        Occupancy {
            group_waves,
            groups,
            waves: groups * group_waves / self.simds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_card_has_a_chip_and_every_chip_a_card() {
        assert!(CARDS.iter().all(|c| Chip::named(c.family).is_some()));
        assert!(CHIPS.iter().all(|c| c.cards().next().is_some()));
    }

    /// Peak rates by the data sheets, in TFLOP/s.
    #[test]
    fn cards_come_to_their_data_sheets() {
        for (name, f32_rate, matrix) in [
            ("RX 580", 6.2, 0.0),
            ("RX 6600", 8.9, 0.0),
            ("RX 7900 XTX", 30.7, 122.9),
            ("RX 9070 XT", 24.3, 194.6),
            ("RX 9060 XT", 12.8, 102.6),
        ] {
            let card = CARDS.iter().find(|c| c.name == name).unwrap();
            let chip = Chip::named(card.family).unwrap();
            let simds = f64::from(card.compute_units * chip.simds / chip.units_shared);
            let fma = simds * card.clock * 128.0 / chip.cycles64 * 1e-12;
            assert!((fma / f32_rate - 1.0).abs() < 0.02, "{name}: {fma}");
            if chip.matrix_cycles > 0.0 {
                let found = simds * card.clock * 8192.0 / chip.matrix_cycles * 1e-12;
                assert!((found / matrix - 1.0).abs() < 0.02, "{name}: {found}");
            }
        }
    }

    #[test]
    fn registers_and_lds_bound_workgroups() {
        let strix = Chip::named("gfx1151").unwrap();
        let o = strix.occupancy(192, 47104, 32, 256);
        assert_eq!((o.group_waves, o.groups, o.waves), (8, 2, 4));
        let polaris = Chip::named("polaris10").unwrap();
        let o = polaris.occupancy(96, 14848, 64, 64);
        assert_eq!((o.group_waves, o.groups, o.waves), (1, 4, 1));
        let o = polaris.occupancy(24, 0, 64, 256);
        assert_eq!((o.groups, o.waves), (8, 8));
    }
}

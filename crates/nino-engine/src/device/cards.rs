//! Cards that people ask about, so that work can be planned for one that is not in this machine.
//!
//! The table holds facts and where they come from; what is made of them is in `predicted.rs`.
//! Memory, bandwidth and arithmetic are the makers' data unless a source is named. Limits of
//! bindings and buffers are what wgpu gives on Linux (Mesa's drivers and NVIDIA's) and on macOS.

use nino_gpu::{AdapterKind, Arch, Caps, Tier, Tiles};

/// A graphics card, or a processor's own graphics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Card {
    /// What a user writes: `rx580-8gb`.
    pub name: &'static str,
    /// What its maker calls it.
    pub model: &'static str,
    pub kind: AdapterKind,
    pub arch: Arch,
    /// The best level of kernels that it has.
    pub tier: Tier,
    /// The fewest and the most lanes of a subgroup.
    pub lanes: (u32, u32),
    /// Whether products of packed bytes are an instruction.
    pub dot_products: bool,
    /// Bytes of memory that the threads of a workgroup share.
    pub shared_bytes: u32,
    /// The most bytes of one binding, and of one buffer.
    pub max_binding: u64,
    pub max_buffer: u64,
    /// Bytes of its own memory; of a GPU without, what the system lends it.
    pub memory: u64,
    /// Bytes of its memory a second, reads and writes.
    pub bandwidth: Figure,
    /// f32 arithmetic a second without dual issue, which kernels seldom get; a multiply-add is two.
    pub f32_flops: Figure,
    /// The same of matrix units, f16 in and f32 accumulated, where tier `coop` uses them.
    pub matrix_flops: Option<Figure>,
    /// Bytes a second over the bus to the host's memory; `None` where both are one memory.
    pub bus: Option<f64>,
}

/// A number a second, and who says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub per_second: f64,
    pub source: Source,
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The maker's data, which is the most there can be.
    Maker,
    /// Measured by someone who has the card; a public place that tells it.
    Measured(&'static str),
}

impl Source {
    /// `data sheet` or `measured`.
    pub fn name(self) -> &'static str {
        match self {
            Source::Maker => "data sheet",
            Source::Measured(_) => "measured",
        }
    }
}

/// Why there is no such card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    #[error("no card is called {name:?}{}", offered(near))]
    Unknown {
        name: String,
        near: Vec<&'static str>,
    },
    #[error("{name:?} may be {}", found.join(" or "))]
    Several {
        name: String,
        found: Vec<&'static str>,
    },
}

fn offered(near: &[&str]) -> String {
    match near {
        [] => String::new(),
        near => format!("; nearest are {}", near.join(", ")),
    }
}

const GIB: u64 = 1 << 30;
const GB: f64 = 1e9;
const TERA: f64 = 1e12;

/// A bus of PCIe: the bytes a second of one direction.
const PCIE3_X16: f64 = 15.75 * GB;
const PCIE4_X8: f64 = 15.75 * GB;
const PCIE4_X16: f64 = 31.5 * GB;
const PCIE5_X16: f64 = 63.0 * GB;

/// wgpu's largest binding, and with Mesa's drivers on Linux its largest buffer.
const TWO_GIB: u64 = (1 << 31) - 1;

const fn maker(per_second: f64) -> Figure {
    Figure {
        per_second,
        source: Source::Maker,
    }
}

/// Polaris: subgroups of 64 lanes, no f16 arithmetic, no matrix units.
const GCN: Card = Card {
    name: "",
    model: "",
    kind: AdapterKind::Discrete,
    arch: Arch::Gcn,
    tier: Tier::Subgroup,
    lanes: (64, 64),
    dot_products: false,
    shared_bytes: 64 << 10,
    max_binding: TWO_GIB,
    max_buffer: TWO_GIB,
    memory: 0,
    bandwidth: maker(0.0),
    f32_flops: maker(0.0),
    matrix_flops: None,
    bus: Some(PCIE3_X16),
};

/// RDNA 2; the first chips of RDNA 1 have no dot products.
const RDNA: Card = Card {
    arch: Arch::Rdna,
    lanes: (32, 64),
    dot_products: true,
    bus: Some(PCIE4_X16),
    ..GCN
};

/// RDNA 3.
const RDNA_MATRIX: Card = Card {
    arch: Arch::RdnaMatrix,
    tier: Tier::Coop,
    ..RDNA
};

/// Graphics of a processor of AMD's: what Linux lends them by default is half of the memory.
const RADEON_M: Card = Card {
    kind: AdapterKind::Integrated,
    bus: None,
    ..RDNA_MATRIX
};

/// NVIDIA's, whose driver gives buffers of any size.
const NVIDIA: Card = Card {
    arch: Arch::Other,
    lanes: (32, 32),
    dot_products: true,
    shared_bytes: 48 << 10,
    max_buffer: 1 << 40,
    bus: Some(PCIE4_X16),
    ..GCN
};

/// The same with matrix units.
const NVIDIA_MATRIX: Card = Card {
    tier: Tier::Coop,
    ..NVIDIA
};

/// Strix Halo, of which others have measured the limits.
const STRIX_HALO: Card = Card {
    bandwidth: Figure {
        per_second: 216.0 * GB,
        source: Source::Measured("AMD-AGI/TraceLens#943: 202 GB/s read, 231 GB/s written"),
    },
    f32_flops: maker(14.8 * TERA),
    matrix_flops: Some(Figure {
        per_second: 36.5 * TERA,
        source: Source::Measured("AMD-AGI/TraceLens#943"),
    }),
    ..RADEON_M
};

/// Every card of the table.
pub const CARDS: &[Card] = &[
    polaris("rx470-4gb", "Radeon RX 470 4 GB", 4, 211.0, 4.9),
    polaris("rx470-8gb", "Radeon RX 470 8 GB", 8, 211.0, 4.9),
    polaris("rx570-4gb", "Radeon RX 570 4 GB", 4, 224.0, 5.1),
    polaris("rx570-8gb", "Radeon RX 570 8 GB", 8, 224.0, 5.1),
    polaris("rx580-4gb", "Radeon RX 580 4 GB", 4, 256.0, 6.2),
    polaris("rx580-8gb", "Radeon RX 580 8 GB", 8, 256.0, 6.2),
    Card {
        name: "rx5700xt",
        model: "Radeon RX 5700 XT",
        memory: 8 * GIB,
        bandwidth: maker(448.0 * GB),
        f32_flops: maker(9.75 * TERA),
        dot_products: false,
        ..RDNA
    },
    Card {
        name: "rx6600",
        model: "Radeon RX 6600",
        memory: 8 * GIB,
        bandwidth: maker(224.0 * GB),
        f32_flops: maker(8.9 * TERA),
        bus: Some(PCIE4_X8),
        ..RDNA
    },
    Card {
        name: "rx6700xt",
        model: "Radeon RX 6700 XT",
        memory: 12 * GIB,
        bandwidth: maker(384.0 * GB),
        f32_flops: maker(13.2 * TERA),
        ..RDNA
    },
    Card {
        name: "rx6800xt",
        model: "Radeon RX 6800 XT",
        memory: 16 * GIB,
        bandwidth: maker(512.0 * GB),
        f32_flops: maker(20.7 * TERA),
        ..RDNA
    },
    Card {
        name: "rx7600",
        model: "Radeon RX 7600",
        memory: 8 * GIB,
        bandwidth: maker(288.0 * GB),
        f32_flops: maker(10.9 * TERA),
        matrix_flops: Some(maker(43.5 * TERA)),
        bus: Some(PCIE4_X8),
        ..RDNA_MATRIX
    },
    Card {
        name: "rx7600xt",
        model: "Radeon RX 7600 XT",
        memory: 16 * GIB,
        bandwidth: maker(288.0 * GB),
        f32_flops: maker(11.3 * TERA),
        matrix_flops: Some(maker(45.1 * TERA)),
        bus: Some(PCIE4_X8),
        ..RDNA_MATRIX
    },
    Card {
        name: "rx7700xt",
        model: "Radeon RX 7700 XT",
        memory: 12 * GIB,
        bandwidth: maker(432.0 * GB),
        f32_flops: maker(17.6 * TERA),
        matrix_flops: Some(maker(70.3 * TERA)),
        ..RDNA_MATRIX
    },
    Card {
        name: "rx7800xt",
        model: "Radeon RX 7800 XT",
        memory: 16 * GIB,
        bandwidth: maker(624.0 * GB),
        f32_flops: maker(18.7 * TERA),
        matrix_flops: Some(maker(74.6 * TERA)),
        ..RDNA_MATRIX
    },
    Card {
        name: "rx7900xtx",
        model: "Radeon RX 7900 XTX",
        memory: 24 * GIB,
        bandwidth: maker(960.0 * GB),
        f32_flops: maker(30.7 * TERA),
        matrix_flops: Some(maker(122.8 * TERA)),
        ..RDNA_MATRIX
    },
    rdna4("rx9060xt-8gb", "Radeon RX 9060 XT 8 GB", 8, 320.0, 12.8),
    rdna4("rx9060xt-16gb", "Radeon RX 9060 XT 16 GB", 16, 320.0, 12.8),
    rdna4("rx9070xt", "Radeon RX 9070 XT", 16, 640.0, 24.3),
    Card {
        name: "780m",
        model: "Radeon 780M in a machine of 32 GB",
        memory: 16 * GIB,
        bandwidth: maker(89.6 * GB),
        f32_flops: maker(4.1 * TERA),
        matrix_flops: Some(maker(16.6 * TERA)),
        ..RADEON_M
    },
    Card {
        name: "890m",
        model: "Radeon 890M in a machine of 32 GB",
        memory: 16 * GIB,
        bandwidth: maker(120.0 * GB),
        f32_flops: maker(5.9 * TERA),
        matrix_flops: Some(maker(23.8 * TERA)),
        ..RADEON_M
    },
    Card {
        name: "8060s-64gb",
        model: "Radeon 8060S (Strix Halo) in a machine of 64 GB",
        memory: 32 * GIB,
        ..STRIX_HALO
    },
    Card {
        name: "8060s-128gb",
        model: "Radeon 8060S (Strix Halo) in a machine of 128 GB",
        memory: 64 * GIB,
        ..STRIX_HALO
    },
    Card {
        name: "gtx1060-6gb",
        model: "GeForce GTX 1060 6 GB",
        memory: 6 * GIB,
        bandwidth: maker(192.0 * GB),
        f32_flops: maker(4.4 * TERA),
        bus: Some(PCIE3_X16),
        ..NVIDIA
    },
    Card {
        name: "rtx3060-12gb",
        model: "GeForce RTX 3060 12 GB",
        memory: 12 * GIB,
        bandwidth: maker(360.0 * GB),
        f32_flops: maker(12.7 * TERA),
        matrix_flops: Some(maker(25.4 * TERA)),
        ..NVIDIA_MATRIX
    },
    Card {
        name: "rtx3090",
        model: "GeForce RTX 3090",
        memory: 24 * GIB,
        bandwidth: maker(936.0 * GB),
        f32_flops: maker(35.6 * TERA),
        matrix_flops: Some(maker(71.2 * TERA)),
        ..NVIDIA_MATRIX
    },
    Card {
        name: "rtx4060",
        model: "GeForce RTX 4060",
        memory: 8 * GIB,
        bandwidth: maker(272.0 * GB),
        f32_flops: maker(15.1 * TERA),
        matrix_flops: Some(maker(30.2 * TERA)),
        bus: Some(PCIE4_X8),
        ..NVIDIA_MATRIX
    },
    Card {
        name: "rtx4060ti-16gb",
        model: "GeForce RTX 4060 Ti 16 GB",
        memory: 16 * GIB,
        bandwidth: maker(288.0 * GB),
        f32_flops: maker(22.1 * TERA),
        matrix_flops: Some(maker(44.1 * TERA)),
        bus: Some(PCIE4_X8),
        ..NVIDIA_MATRIX
    },
    Card {
        name: "rtx4070",
        model: "GeForce RTX 4070",
        memory: 12 * GIB,
        bandwidth: maker(504.0 * GB),
        f32_flops: maker(29.1 * TERA),
        matrix_flops: Some(maker(58.3 * TERA)),
        ..NVIDIA_MATRIX
    },
    Card {
        name: "rtx4090",
        model: "GeForce RTX 4090",
        memory: 24 * GIB,
        bandwidth: maker(1008.0 * GB),
        f32_flops: maker(82.6 * TERA),
        matrix_flops: Some(maker(165.2 * TERA)),
        ..NVIDIA_MATRIX
    },
    // Its matrix units have no squares of 16, which tier coop wants.
    Card {
        name: "a770",
        model: "Arc A770 16 GB",
        arch: Arch::Other,
        lanes: (8, 32),
        memory: 16 * GIB,
        bandwidth: maker(560.0 * GB),
        f32_flops: maker(19.7 * TERA),
        ..RDNA
    },
    apple("m2-8gb", "Apple M2 (10 cores) of 8 GB", 5461, 4),
    apple("m2-16gb", "Apple M2 (10 cores) of 16 GB", 10_922, 8),
];

const fn polaris(
    name: &'static str,
    model: &'static str,
    gib: u64,
    gb: f64,
    teraflops: f64,
) -> Card {
    Card {
        name,
        model,
        memory: gib * GIB,
        bandwidth: maker(gb * GB),
        f32_flops: maker(teraflops * TERA),
        ..GCN
    }
}

/// RDNA 4: `gb` a second of memory, and eight times the arithmetic in matrix units.
const fn rdna4(name: &'static str, model: &'static str, gib: u64, gb: f64, teraflops: f64) -> Card {
    Card {
        name,
        model,
        arch: Arch::Rdna4,
        memory: gib * GIB,
        bandwidth: maker(gb * GB),
        f32_flops: maker(teraflops * TERA),
        matrix_flops: Some(maker(8.0 * teraflops * TERA)),
        bus: Some(PCIE5_X16),
        ..RDNA_MATRIX
    }
}

/// `working_set` MiB are what Metal recommends to use; `buffer` GiB are its largest buffer.
const fn apple(name: &'static str, model: &'static str, working_set: u64, buffer: u64) -> Card {
    Card {
        name,
        model,
        kind: AdapterKind::Integrated,
        arch: Arch::Other,
        lanes: (32, 32),
        shared_bytes: 32 << 10,
        max_binding: buffer * GIB,
        max_buffer: buffer * GIB,
        memory: working_set << 20,
        bandwidth: maker(100.0 * GB),
        f32_flops: maker(3.6 * TERA),
        bus: None,
        ..GCN
    }
}

impl Card {
    /// The card of this name, in capitals or not, with or without spaces, dashes and what makers
    /// put before numbers. A part of a name will do where only one card has it.
    pub fn find(name: &str) -> Result<&'static Card, CardError> {
        let wanted = plain(name);
        if let Some(card) = CARDS.iter().find(|card| plain(card.name) == wanted) {
            return Ok(card);
        }
        let found: Vec<&Card> = CARDS
            .iter()
            .filter(|card| !wanted.is_empty() && plain(card.name).starts_with(&wanted))
            .collect();
        match found[..] {
            [card] => Ok(card),
            [] => Err(CardError::Unknown {
                name: name.to_owned(),
                near: nino_sample::nearest(name, CARDS.iter().map(|card| card.name)),
            }),
            _ => Err(CardError::Several {
                name: name.to_owned(),
                found: found.iter().map(|card| card.name).collect(),
            }),
        }
    }

    /// What plans and kernels for the card depend on, at a level of kernels.
    pub fn caps(&self, tier: Tier) -> Caps {
        Caps {
            kind: self.kind,
            arch: self.arch,
            tier,
            coop_size: (self.tier == Tier::Coop).then_some(16),
            subgroup_min: self.lanes.0,
            subgroup_max: self.lanes.1,
            subgroup_choice: self.lanes.0 != self.lanes.1,
            max_workgroup_bytes: self.shared_bytes,
            max_binding_bytes: self.max_binding,
            max_buffer_bytes: self.max_buffer,
            offset_alignment: 256,
            dot_products: self.dot_products,
            immediates: true,
            ptx: None,
            tiles: Tiles::default(),
        }
    }
}

/// A name without what people leave out.
fn plain(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = [
        "amd", "nvidia", "intel", "apple", "radeon", "geforce", "arc",
    ];
    let bare = words
        .iter()
        .fold(lower, |name, word| name.replace(word, ""));
    bare.chars().filter(|c| c.is_alphanumeric()).collect()
}

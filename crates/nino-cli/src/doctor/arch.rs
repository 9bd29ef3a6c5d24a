//! What a graphics card is, from its PCI ids, else from its name.
//!
//! AMD device ids come in ranges per chip; the gfx numbers are those of LLVM's AMDGPU back end.

use super::facts::{Architecture, Family};

pub(crate) const AMD: u32 = 0x1002;
const NVIDIA: u32 = 0x10de;
const INTEL: u32 = 0x8086;
const APPLE: u32 = 0x106b;
const MESA: u32 = 0x1_0005;
const MICROSOFT: u32 = 0x1414;

struct Chip {
    ids: &'static [(u32, u32)],
    /// Marks in names by which RADV and others give the chip away, upper case.
    names: &'static [&'static str],
    arch: Architecture,
}

const fn chip(
    ids: &'static [(u32, u32)],
    names: &'static [&'static str],
    id: &'static str,
    family: Family,
    cards: &'static str,
) -> Chip {
    let arch = Architecture { id, family, cards };
    Chip { ids, names, arch }
}

#[rustfmt::skip]
const AMD_CHIPS: &[Chip] = &[
    chip(&[(0x67c0, 0x67df), (0x6fdf, 0x6fdf)], &["POLARIS10", "POLARIS20", "RX 470", "RX 480", "RX 570", "RX 580", "RX 590"], "gfx803", Family::Polaris, "Polaris 10/20: RX 470, 480, 570, 580, 590"),
    chip(&[(0x67e0, 0x67ff)], &["POLARIS11", "POLARIS21", "RX 460", "RX 560"], "gfx803", Family::Polaris, "Polaris 11/21: RX 460, 560"),
    chip(&[(0x6980, 0x699f)], &["POLARIS12", "RX 540", "RX 550"], "gfx803", Family::Polaris, "Polaris 12: RX 540, 550"),
    chip(&[(0x694c, 0x694f)], &["VEGAM"], "gfx803", Family::Polaris, "Vega M, a Polaris 22"),
    chip(&[(0x7300, 0x730f)], &["FIJI"], "gfx803", Family::Gcn, "Fiji: R9 Fury, Nano"),
    chip(&[(0x6920, 0x693f)], &["TONGA"], "gfx802", Family::Gcn, "Tonga: R9 285, 380"),
    chip(&[(0x67a0, 0x67bf)], &["HAWAII"], "gfx701", Family::Gcn, "Hawaii: R9 290, 390"),
    chip(&[(0x6860, 0x687f)], &["VEGA10", "VEGA 56", "VEGA 64"], "gfx900", Family::Vega, "Vega 10: Vega 56, 64"),
    chip(&[(0x69a0, 0x69af)], &["VEGA12"], "gfx904", Family::Vega, "Vega 12"),
    chip(&[(0x66a0, 0x66af)], &["VEGA20", "RADEON VII"], "gfx906", Family::Vega, "Vega 20: Radeon VII, MI50, MI60"),
    chip(&[(0x15dd, 0x15dd), (0x15d8, 0x15d8)], &["RAVEN"], "gfx902", Family::Vega, "Raven, Picasso: Vega 8, 11 in Ryzen 2000, 3000"),
    chip(&[(0x1636, 0x1636), (0x1638, 0x1638), (0x164c, 0x164c), (0x15e7, 0x15e7)], &["RENOIR"], "gfx90c", Family::Vega, "Renoir, Cezanne: Ryzen 4000, 5000 APU"),
    chip(&[(0x7388, 0x7390)], &["ARCTURUS", "MI100"], "gfx908", Family::Cdna, "Instinct MI100"),
    chip(&[(0x7408, 0x7410)], &["ALDEBARAN", "MI210", "MI250"], "gfx90a", Family::Cdna, "Instinct MI200"),
    chip(&[(0x74a0, 0x74bf)], &["GFX940", "MI300", "MI325"], "gfx942", Family::Cdna, "Instinct MI300"),
    chip(&[(0x75a0, 0x75bf)], &["MI350", "MI355"], "gfx950", Family::Cdna, "Instinct MI350"),
    chip(&[(0x7310, 0x731f)], &["NAVI10", "RX 5600", "RX 5700"], "gfx1010", Family::Rdna1, "Navi 10: RX 5600, 5700"),
    chip(&[(0x7360, 0x736f)], &["NAVI12"], "gfx1011", Family::Rdna1, "Navi 12: Pro 5600M"),
    chip(&[(0x7340, 0x734f)], &["NAVI14", "RX 5300", "RX 5500"], "gfx1012", Family::Rdna1, "Navi 14: RX 5300, 5500"),
    chip(&[(0x73a0, 0x73bf)], &["NAVI21", "RX 6800", "RX 6900", "RX 6950"], "gfx1030", Family::Rdna2, "Navi 21: RX 6800, 6900, 6950"),
    chip(&[(0x73c0, 0x73df)], &["NAVI22", "RX 6700", "RX 6750"], "gfx1031", Family::Rdna2, "Navi 22: RX 6700, 6750"),
    chip(&[(0x73e0, 0x73ff)], &["NAVI23", "RX 6600", "RX 6650"], "gfx1032", Family::Rdna2, "Navi 23: RX 6600, 6650"),
    chip(&[(0x7420, 0x743f)], &["NAVI24", "RX 6300", "RX 6400", "RX 6500"], "gfx1034", Family::Rdna2, "Navi 24: RX 6400, 6500"),
    chip(&[(0x163f, 0x163f), (0x1435, 0x1435)], &["VANGOGH"], "gfx1033", Family::Rdna2, "Van Gogh: Steam Deck"),
    chip(&[(0x1681, 0x1681), (0x164d, 0x164d)], &["REMBRANDT", "680M", "660M"], "gfx1035", Family::Rdna2, "Rembrandt: Radeon 680M"),
    chip(&[(0x164e, 0x164e), (0x13c0, 0x13c0)], &["RAPHAEL"], "gfx1036", Family::Rdna2, "Raphael, Granite Ridge: Ryzen 7000, 9000 desktop"),
    chip(&[(0x1506, 0x1506)], &["MENDOCINO"], "gfx1037", Family::Rdna2, "Mendocino: Radeon 610M"),
    chip(&[(0x7440, 0x745f)], &["NAVI31", "RX 7900"], "gfx1100", Family::Rdna3, "Navi 31: RX 7900"),
    chip(&[(0x7460, 0x747f)], &["NAVI32", "RX 7700", "RX 7800"], "gfx1101", Family::Rdna3, "Navi 32: RX 7700, 7800"),
    chip(&[(0x7480, 0x749f)], &["NAVI33", "RX 7600"], "gfx1102", Family::Rdna3, "Navi 33: RX 7600"),
    chip(&[(0x15bf, 0x15bf), (0x15c8, 0x15c8), (0x1900, 0x1901)], &["GFX1103", "PHOENIX", "780M", "760M"], "gfx1103", Family::Rdna3, "Phoenix, Hawk Point: Radeon 780M"),
    chip(&[(0x150e, 0x150e)], &["GFX1150", "890M", "880M"], "gfx1150", Family::Rdna35, "Strix Point: Radeon 890M"),
    chip(&[(0x1586, 0x1586)], &["GFX1151", "8060S", "8050S", "8040S", "STRIX HALO", "STRIX_HALO"], "gfx1151", Family::Rdna35, "Strix Halo: Radeon 8060S (Ryzen AI Max)"),
    chip(&[(0x1114, 0x1114)], &["GFX1152", "860M", "840M"], "gfx1152", Family::Rdna35, "Krackan Point: Radeon 860M"),
    chip(&[(0x7590, 0x759f)], &["NAVI44", "GFX1200", "RX 9060"], "gfx1200", Family::Rdna4, "Navi 44: RX 9060"),
    chip(&[(0x7550, 0x755f)], &["NAVI48", "GFX1201", "RX 9070", "R9700"], "gfx1201", Family::Rdna4, "Navi 48: RX 9070, R9700"),
];

#[rustfmt::skip]
const NVIDIA_CHIPS: &[Chip] = &[
    chip(&[], &["B100", "B200", "B300", "GB200", "RTX 50", "RTX PRO 6000 BLACKWELL"], "Blackwell", Family::Nvidia, "RTX 50, B200"),
    chip(&[], &["H100", "H200", "H800", "H20", "GH200"], "Hopper", Family::Nvidia, "H100, H200"),
    chip(&[], &["RTX 40", "L40", "L4", " ADA"], "Ada", Family::Nvidia, "RTX 40, L4, L40"),
    chip(&[], &["RTX 30", "RTX A", "A100", "A800", "A10", "A40", "A30", "A2"], "Ampere", Family::Nvidia, "RTX 30, A100"),
    chip(&[], &["RTX 20", "GTX 16", "T4", "QUADRO RTX", "TITAN RTX"], "Turing", Family::Nvidia, "RTX 20, GTX 16, T4"),
    chip(&[], &["V100", "TITAN V"], "Volta", Family::Nvidia, "V100"),
    chip(&[], &["GTX 10", "P100", "P40", "P4", "TITAN X"], "Pascal", Family::Nvidia, "GTX 10, P100"),
];

pub(super) fn find(vendor_id: u32, device_id: u32, name: &str) -> Option<Architecture> {
    let upper = name.to_uppercase();
    let generic = |id, family, cards| Some(Architecture { id, family, cards });
    match vendor_id {
        AMD => by_id(AMD_CHIPS, device_id).or_else(|| by_name(AMD_CHIPS, &upper)),
        NVIDIA => by_name(NVIDIA_CHIPS, &upper)
            .or_else(|| generic("NVIDIA", Family::Nvidia, "a card without a known name")),
        INTEL if upper.contains("ARC") => generic("Xe-HPG", Family::Intel, "Arc"),
        INTEL => generic("Intel", Family::Intel, "integrated graphics"),
        APPLE => generic("Apple", Family::Apple, "Apple silicon"),
        _ if upper.starts_with("APPLE ") => generic("Apple", Family::Apple, "Apple silicon"),
        MESA if upper.contains("LLVMPIPE") => {
            generic("lavapipe", Family::Software, "Mesa's software GPU")
        }
        MICROSOFT => generic("WARP", Family::Software, "Windows' software GPU"),
        _ => None,
    }
}

#[cfg(test)]
pub(super) fn amd_ranges() -> impl Iterator<Item = (u32, u32)> {
    AMD_CHIPS.iter().flat_map(|c| c.ids.iter().copied())
}

fn by_id(chips: &[Chip], id: u32) -> Option<Architecture> {
    let covers = |c: &&Chip| {
        c.ids
            .iter()
            .any(|&(first, last)| (first..=last).contains(&id))
    };
    chips.iter().find(covers).map(|c| c.arch)
}

fn by_name(chips: &[Chip], upper: &str) -> Option<Architecture> {
    let named = |c: &&Chip| c.names.iter().any(|mark| upper.contains(mark));
    chips.iter().find(named).map(|c| c.arch)
}

//! Budgets as text and as JSON.

use crate::bytes::Bytes;
use nino_engine::device::{Budget, Limit};
use serde::ser::{Serialize, Serializer};

#[derive(serde::Serialize)]
struct BudgetJson {
    bytes: u64,
    terms: Vec<TermJson>,
}

#[derive(serde::Serialize)]
struct TermJson {
    what: String,
    bytes: u64,
}

/// For `#[serde(serialize_with)]`.
#[allow(clippy::ref_option)] // serde's signature
pub(super) fn json<S: Serializer>(budget: &Option<Budget>, to: S) -> Result<S::Ok, S::Error> {
    let json = budget.as_ref().map(|budget| BudgetJson {
        bytes: budget.bytes,
        terms: budget
            .terms
            .iter()
            .map(|term| TermJson {
                what: what(term.limit),
                bytes: term.bytes,
            })
            .collect(),
    });
    json.serialize(to)
}

/// What limits memory, in words.
pub(super) fn what(limit: Limit) -> String {
    let share = |of: u64, whose: &str| {
        let percent = Budget::FRACTION * 100.0;
        format!("{percent:.0} % of {whose}, {}", Bytes(of))
    };
    match limit {
        Limit::Cap => "--budget".to_owned(),
        Limit::VulkanHeaps { of } => share(of, "the Vulkan heaps"),
        Limit::VulkanFree { reserve: 0 } => "free by VK_EXT_memory_budget".to_owned(),
        Limit::VulkanFree { reserve } => {
            let reserve = Bytes(reserve);
            format!("free by VK_EXT_memory_budget minus {reserve} for the driver")
        }
        Limit::Amdgpu { of, with_gtt: true } => share(of, "amdgpu's VRAM + GTT"),
        Limit::Amdgpu { of, .. } => share(of, "amdgpu's VRAM"),
        Limit::AmdgpuFree { with_gtt: true } => "free VRAM + GTT by amdgpu".to_owned(),
        Limit::AmdgpuFree { .. } => "free VRAM by amdgpu".to_owned(),
        Limit::Available { reserve } => {
            format!("MemAvailable minus a reserve of {}", Bytes(reserve))
        }
        Limit::Machine { of } => share(of, "the machine's memory"),
        Limit::ControlGroup { of } => share(of, "the control group's limit"),
    }
}

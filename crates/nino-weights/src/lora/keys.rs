//! The spellings: what the end of a LoRA tensor's name says.

use super::LoraFormat;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Down,
    Up,
    Mid,
    Alpha,
    Diff,
    DiffBias,
    /// What the weight is replaced by.
    Set,
    /// The size that the weight grows to before it is changed.
    Reshape,
    /// DoRA's length of each row or column.
    Magnitude,
    Hada(Factor),
    Kron(Factor),
    /// Blocks that turn rows (OFT, BOFT).
    Blocks,
    /// Factors of the turned rows.
    Rescale,
    /// One of GLoRA's four matrices.
    General(usize),
    Refused(LoraFormat),
}

/// A piece of one of the two matrices (0 or 1) that LoHa and LoKr multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    Whole(usize),
    A(usize),
    B(usize),
    Core(usize),
}

/// Ends of names; a longer one stands before those it ends with.
const ENDS: &[(&str, Role)] = &[
    (".lora_linear_layer.down.weight", Role::Down),
    (".lora_linear_layer.up.weight", Role::Up),
    (".lora_A.default.weight", Role::Down),
    (".lora_B.default.weight", Role::Up),
    (".lora_down.weight", Role::Down),
    (".lora_up.weight", Role::Up),
    (".lora_mid.weight", Role::Mid),
    (".lora_A.weight", Role::Down),
    (".lora_B.weight", Role::Up),
    (".lora.down.weight", Role::Down),
    (".lora.up.weight", Role::Up),
    ("_lora.down.weight", Role::Down),
    ("_lora.up.weight", Role::Up),
    (".lora_A", Role::Down),
    (".lora_B", Role::Up),
    (".lora_B.bias", Role::DiffBias),
    (".alpha", Role::Alpha),
    (".diff", Role::Diff),
    (".diff_b", Role::DiffBias),
    (".w_norm", Role::Diff),
    (".b_norm", Role::DiffBias),
    (".set_weight", Role::Set),
    (".reshape_weight", Role::Reshape),
    (".hada_w1_a", Role::Hada(Factor::A(0))),
    (".hada_w1_b", Role::Hada(Factor::B(0))),
    (".hada_w2_a", Role::Hada(Factor::A(1))),
    (".hada_w2_b", Role::Hada(Factor::B(1))),
    (".hada_t1", Role::Hada(Factor::Core(0))),
    (".hada_t2", Role::Hada(Factor::Core(1))),
    (".lokr_w1", Role::Kron(Factor::Whole(0))),
    (".lokr_w1_a", Role::Kron(Factor::A(0))),
    (".lokr_w1_b", Role::Kron(Factor::B(0))),
    (".lokr_w2", Role::Kron(Factor::Whole(1))),
    (".lokr_w2_a", Role::Kron(Factor::A(1))),
    (".lokr_w2_b", Role::Kron(Factor::B(1))),
    (".lokr_t2", Role::Kron(Factor::Core(1))),
    (".dora_scale", Role::Magnitude),
    (".lora_magnitude_vector", Role::Magnitude),
    (".lora_magnitude_vector.weight", Role::Magnitude),
    (".oft_blocks", Role::Blocks),
    (".rescale", Role::Rescale),
    (".oft_diag", Role::Refused(LoraFormat::Oft)),
    (".a1.weight", Role::General(0)),
    (".a2.weight", Role::General(1)),
    (".b1.weight", Role::General(2)),
    (".b2.weight", Role::General(3)),
    (".on_input", Role::Refused(LoraFormat::Ia3)),
];

/// The module and what the tensor is for it.
pub(super) fn split(name: &str) -> Option<(&str, Role)> {
    // Black Forest Labs' control LoRAs have norms whole, under the model's own names.
    if let Some(module) = name.strip_suffix(".scale")
        && module.ends_with("_norm")
    {
        return Some((module, Role::Set));
    }
    // XLabs' processors count the two streams of a block, which the module's name keeps.
    let numbered = [(".down.weight", Role::Down), (".up.weight", Role::Up)];
    let numbered = numbered
        .into_iter()
        .find_map(|(end, role)| Some((name.strip_suffix(end)?, role)))
        .filter(|(module, _)| ["_lora1", "_lora2"].iter().any(|end| module.ends_with(end)));
    if numbered.is_some() {
        return numbered;
    }
    ENDS.iter()
        .find_map(|&(end, role)| Some((name.strip_suffix(end)?, role)))
}

/// Whose spelling a low-rank tensor's name is in.
pub(super) fn spelling(name: &str) -> LoraFormat {
    if name.contains(".processor.")
        || name.contains(".lora_linear_layer.")
        || name.contains(".lora.")
    {
        LoraFormat::AttnProcs
    } else if name.contains(".hada_") {
        LoraFormat::LoHa
    } else if name.contains(".lokr_") {
        LoraFormat::LoKr
    } else if name.ends_with(".oft_blocks") {
        LoraFormat::Oft
    } else if matches!(split(name), Some((_, Role::General(_)))) {
        LoraFormat::Glora
    } else if name.contains(".lora_A") || name.contains(".lora_B") {
        LoraFormat::Peft
    } else {
        LoraFormat::Kohya
    }
}

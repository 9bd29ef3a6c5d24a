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
    Refused(LoraFormat),
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
    (".alpha", Role::Alpha),
    (".diff", Role::Diff),
    (".diff_b", Role::DiffBias),
    (".hada_w1_a", Role::Refused(LoraFormat::LoHa)),
    (".hada_w1_b", Role::Refused(LoraFormat::LoHa)),
    (".hada_w2_a", Role::Refused(LoraFormat::LoHa)),
    (".hada_w2_b", Role::Refused(LoraFormat::LoHa)),
    (".lokr_w1", Role::Refused(LoraFormat::LoKr)),
    (".lokr_w2", Role::Refused(LoraFormat::LoKr)),
    (".lokr_w1_a", Role::Refused(LoraFormat::LoKr)),
    (".lokr_w2_a", Role::Refused(LoraFormat::LoKr)),
    (".dora_scale", Role::Refused(LoraFormat::Dora)),
    (".lora_magnitude_vector", Role::Refused(LoraFormat::Dora)),
    (".oft_blocks", Role::Refused(LoraFormat::Oft)),
    (".oft_diag", Role::Refused(LoraFormat::Oft)),
    (".a1.weight", Role::Refused(LoraFormat::Glora)),
    (".b1.weight", Role::Refused(LoraFormat::Glora)),
    (".on_input", Role::Refused(LoraFormat::Ia3)),
];

/// The module and what the tensor is for it.
pub(super) fn split(name: &str) -> Option<(&str, Role)> {
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
    } else if name.contains(".lora_A") || name.contains(".lora_B") {
        LoraFormat::Peft
    } else {
        LoraFormat::Kohya
    }
}

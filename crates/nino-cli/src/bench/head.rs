//! What every report of a bench begins with.

use crate::device::Opened;
use serde::Serialize;
use std::fmt;

#[derive(Serialize)]
pub(super) struct Head {
    device: String,
    model: String,
    tier: Option<String>,
}

impl Head {
    pub(super) fn new(opened: &Opened) -> Head {
        Head {
            device: opened.name.to_string(),
            model: opened.model.clone(),
            tier: opened.tier.map(|t| t.to_string()),
        }
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.device, self.model)?;
        match &self.tier {
            Some(tier) => write!(f, ", tier {tier}"),
            None => Ok(()),
        }
    }
}

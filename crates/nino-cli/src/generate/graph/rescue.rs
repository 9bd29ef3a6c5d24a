//! The latent of a graph's run that no picture came of.

use crate::generate::rescue::{Rescued, unused};
use crate::plural::count;
use nino_engine::{EngineError, Latent};
use nino_workflow::SampledLatent;
use std::collections::BTreeMap;
use std::path::Path;

/// The last latent that was sampled.
pub(super) struct LastLatent {
    node: String,
    latent: Latent,
    /// What a run that stopped had done of its steps, and the latent with its noise.
    stopped: Option<Stopped>,
}

struct Stopped {
    done: usize,
    total: usize,
    noisy: Option<Latent>,
}

impl From<&SampledLatent<'_>> for LastLatent {
    fn from(sampled: &SampledLatent<'_>) -> LastLatent {
        LastLatent {
            node: sampled.node.to_owned(),
            latent: sampled.latent.clone(),
            stopped: sampled.stopped.map(|reached| Stopped {
                done: reached.done,
                total: reached.total,
                noisy: reached.noisy.clone(),
            }),
        }
    }
}

impl LastLatent {
    /// Writes the latent beside where the picture would be, and says what to type to see it. `vae`
    /// is the file that decodes it, where the graph names one; `stopped` is whether the user
    /// stopped the run.
    pub(super) fn save(
        &self,
        picture: &Path,
        about: &BTreeMap<String, String>,
        vae: Option<&Path>,
        stopped: bool,
    ) -> Result<Rescued, EngineError> {
        let file = unused(&picture.with_extension("latent"));
        let noisy = self.stopped.as_ref().and_then(|s| s.noisy.as_ref());
        self.latent.save_beside(noisy, &file, about)?;
        let shown = file.display();
        let sentence = match &self.stopped {
            Some(stopped) => format!(
                "{shown} has the latent of node {} after {} of {}",
                self.node,
                stopped.done,
                count(stopped.total, "step")
            ),
            None => format!("{shown} has the latent that node {} sampled", self.node),
        };
        let vae = vae.map_or("VAE".into(), |vae| vae.display().to_string());
        let picture = unused(&file.with_extension("png"));
        let hint = format!(
            "`nino decode {shown} --vae {vae} -o {}` decodes it",
            picture.display()
        );
        Ok(Rescued::new(sentence, vec![hint], stopped))
    }
}

//! Style models: a picture as an image encoder sees it becomes tokens that stand behind those of a
//! prompt. Flux Redux; ComfyUI's `StyleModelLoader` and `StyleModelApply`.

use crate::fit::fit;
use crate::model::identity::{NetId, Origin, Part};
use crate::model::single;
use crate::store::Network as Opened;
use crate::values::{read, write};
use crate::{
    Conditioning, Control, DiffusionModel, EngineError, Image, ImageEncoder, ImageStates, Square,
    Stage, Store, encode_for_clip,
};
use nino_dtype::DType;
use nino_graph::{Graph, Node, Plan, RunOptions};
use nino_models::{FileParams, Network, redux};
use nino_weights::names::Net;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A style model out of a file. Cheap to clone.
#[derive(Clone)]
pub struct StyleModel {
    config: redux::Config,
    weights: FileParams,
    origin: Origin,
}

/// A picture whose style a prompt is given.
#[derive(Clone)]
pub struct Style {
    pub model: StyleModel,
    pub encoder: ImageEncoder,
    pub image: Arc<Image>,
    pub square: Square,
    pub strength: StyleStrength,
}

/// What a picture's style adds to a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct StyleTokens {
    /// `[tokens, width]`
    pub values: Vec<f32>,
    pub width: usize,
}

/// How much a style counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StyleStrength {
    /// Its tokens are multiplied by this.
    Multiply(f32),
    /// The model heeds them as if there were so many of each.
    Heed(f32),
}

struct Recorded {
    plan: Arc<Plan>,
    states: Node,
    tokens: Node,
}

impl StyleModel {
    /// Reads the style model of a file.
    pub fn open(path: &Path) -> Result<StyleModel, EngineError> {
        let found = single::first(path, Net::Redux, |network| match network {
            Network::Redux(config) => Some(config),
            _ => None,
        })?;
        let (config, weights, origin) = found.ok_or_else(|| EngineError::NotAStyleModel {
            path: path.to_owned(),
        })?;
        Ok(StyleModel {
            config,
            weights,
            origin,
        })
    }

    fn id(&self) -> NetId {
        NetId::plain(self.origin.clone(), Part::Style)
    }

    fn record(&self, store: &Store, n: usize) -> Result<Recorded, EngineError> {
        let mut g = Graph::new();
        let states = g.input("states", [1, n, self.config.redux_dim], DType::F32);
        let params = self.weights.params();
        let tokens = redux::redux(&mut g, &params, &self.config, states);
        g.output(tokens);
        Ok(Recorded {
            plan: fit(store.device(), &g.finish()?, 1)?,
            states,
            tokens,
        })
    }
}

/// The tokens that a style model makes of a picture's hidden states.
pub fn style_tokens(
    store: &Store,
    style: &StyleModel,
    states: &ImageStates,
    control: &mut Control<'_>,
) -> Result<StyleTokens, EngineError> {
    let (expected, found) = (style.config.redux_dim, states.width);
    if expected != found || states.values.is_empty() {
        return Err(EngineError::StyleStates { expected, found });
    }
    control.stage(Stage::Encode)?;
    let net = style.id();
    net.check_unchanged()?;
    let n = states.tokens();
    let recorded = store.plan(&net, format!("style of {n} tokens"), || {
        style.record(store, n)
    })?;
    let mut lease = store.open(&Opened {
        stage: Stage::Encode,
        net,
        plans: std::slice::from_ref(&recorded.plan),
        beside: 0,
        source: &|| Ok(Arc::new(style.weights.clone())),
    })?;
    let graph = recorded.plan.graph();
    let session = lease.session();
    write(session, graph, recorded.states, &states.values)?;
    session.run(RunOptions {
        cancel: Some(control.cancel),
        ..RunOptions::default()
    })?;
    let values = read(session, graph, recorded.tokens)?;
    lease.finish();
    Ok(StyleTokens {
        values,
        width: style.config.txt_dim,
    })
}

impl Style {
    /// The prompt with the style behind it.
    pub(crate) fn behind(
        &self,
        store: &Store,
        prompt: &Conditioning,
        control: &mut Control<'_>,
    ) -> Result<Conditioning, EngineError> {
        let states = encode_for_clip(store, &self.encoder, &self.image, self.square, control)?;
        let tokens = style_tokens(store, &self.model, &states, control)?;
        prompt.with_style(&tokens, self.strength)
    }
}

impl fmt::Debug for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Style")
            .field("strength", &self.strength)
            .finish_non_exhaustive()
    }
}

/// The bias of tokens that are not heeded at all: nothing is left of it after a softmax, and f16
/// holds it.
const UNHEEDED: f32 = -6e4;

impl Conditioning {
    /// The same prompt with a picture's style behind it.
    pub fn with_style(
        &self,
        style: &StyleTokens,
        strength: StyleStrength,
    ) -> Result<Conditioning, EngineError> {
        if self.width != style.width {
            return Err(EngineError::StyleWidth {
                prompt: self.width,
                style: style.width,
            });
        }
        let mut prompt = self.clone();
        let start = prompt.tokens();
        let factor = match strength {
            StyleStrength::Multiply(factor) => factor,
            StyleStrength::Heed(_) => 1.0,
        };
        Arc::make_mut(&mut prompt.context).extend(style.values.iter().map(|v| v * factor));
        let bias = match strength {
            StyleStrength::Heed(share) => share.ln().max(UNHEEDED),
            StyleStrength::Multiply(_) => 0.0,
        };
        // A style without a bias matters beside one that has some: it looks at that with none.
        if bias != 0.0 || !prompt.biased.is_empty() {
            prompt.biased.push((start..prompt.tokens(), bias));
        }
        Ok(prompt)
    }

    /// The stretches of tokens that a model heeds more or less.
    pub(crate) fn stretches(&self, model: &DiffusionModel) -> Vec<Range<usize>> {
        if !model.net().takes_bias() {
            return Vec::new();
        }
        self.biased
            .iter()
            .map(|(tokens, _)| tokens.clone())
            .collect()
    }

    /// What is added to the scores of its tokens, `[stretches, tokens]`: for those in no stretch,
    /// then for those in the first, the second, ... A stretch sees biases of those after it.
    pub(crate) fn bias_values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.biased.len() * self.tokens()];
        for (first, row) in values.chunks_exact_mut(self.tokens().max(1)).enumerate() {
            for (stretch, bias) in &self.biased[first..] {
                row[stretch.clone()].fill(*bias);
            }
        }
        values
    }
}

#[cfg(test)]
mod tests;

//! The style of a picture for Flux by USO: tokens that stand before those of every prompt.
//! ComfyUI's `USOStyleReference`, whose model comes by `ModelPatchLoader`.

use crate::fit::fit;
use crate::model::identity::{NetId, Origin, Part};
use crate::model::single;
use crate::store::Network as Opened;
use crate::values::{read, write};
use crate::{Control, EngineError, ImageStates, Stage, Store, StyleTokens};
use nino_dtype::DType;
use nino_graph::{Graph, Node, Plan, RunOptions};
use nino_models::{FileParams, Network, uso};
use nino_weights::names::Net;
use std::path::Path;
use std::sync::Arc;

/// USO's model out of a file. Cheap to clone.
#[derive(Clone)]
pub struct UsoModel {
    config: uso::Config,
    weights: FileParams,
    origin: Origin,
}

struct Recorded {
    plan: Arc<Plan>,
    states: [Node; 3],
    tokens: Node,
}

impl UsoModel {
    /// Reads the model of a file; `None` where it is another one.
    pub fn open(path: &Path) -> Result<Option<UsoModel>, EngineError> {
        let found = single::first(path, Net::Redux, |network| match network {
            Network::Uso(config) => Some(config),
            _ => None,
        })?;
        Ok(found.map(|(config, weights, origin)| UsoModel {
            config,
            weights,
            origin,
        }))
    }

    fn record(&self, store: &Store) -> Result<Recorded, EngineError> {
        let mut g = Graph::new();
        let size = [1, self.config.tokens, self.config.siglip];
        let states = ["low", "middle", "high"].map(|name| g.input(name, size, DType::F32));
        let params = self.weights.params();
        let tokens = uso::projector(&mut g, &params, &self.config, states);
        g.output(tokens);
        Ok(Recorded {
            plan: fit(store.device(), &g.finish()?, 1)?,
            states,
            tokens,
        })
    }

    /// The tokens that it makes of a picture's hidden states.
    pub fn tokens(
        &self,
        store: &Store,
        states: &ImageStates,
        control: &mut Control<'_>,
    ) -> Result<StyleTokens, EngineError> {
        let expected = self.config.tokens * self.config.siglip;
        let layers = states.deeper.iter().map(Vec::len);
        if layers.clone().count() != 3 || layers.clone().any(|n| n != expected) {
            let found = layers.max().unwrap_or(0);
            return Err(EngineError::UsoStates { expected, found });
        }
        control.stage(Stage::Encode)?;
        let net = NetId::plain(self.origin.clone(), Part::Style);
        net.check_unchanged()?;
        let recorded = store.plan(&net, "USO's style".to_owned(), || self.record(store))?;
        let mut lease = store.open(&Opened {
            stage: Stage::Encode,
            net,
            plans: std::slice::from_ref(&recorded.plan),
            beside: 0,
            source: &|| Ok(Arc::new(self.weights.clone())),
        })?;
        let (graph, session) = (recorded.plan.graph(), lease.session());
        for (&node, values) in recorded.states.iter().zip(&states.deeper) {
            write(session, graph, node, values)?;
        }
        session.run(RunOptions {
            cancel: Some(control.cancel),
            ..RunOptions::default()
        })?;
        let values = read(session, graph, recorded.tokens)?;
        lease.finish();
        Ok(StyleTokens {
            values,
            width: self.config.hidden,
        })
    }
}

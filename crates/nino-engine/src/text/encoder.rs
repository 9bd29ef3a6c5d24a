//! One text encoder on a device: chunks of tokens and vectors in, hidden states and pooled text
//! out.

use super::inversion::Inversions;
use crate::fit::fit;
use crate::store::Network;
use crate::values::{read, write};
use crate::{Control, EngineError, Stage, Store, TextEncoders};
use nino_dtype::DType;
use nino_graph::{Device, Graph, Node, Plan, RunOptions, Session};
use nino_models::clip;
use nino_text::{Chunk, Layout, Piece, Tokens, apply_weights};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(super) struct Output {
    /// `[tokens, width]`, all chunks one after the other.
    pub(super) hidden: Vec<f32>,
    /// The first chunk's pooled vector; empty where the family has none.
    pub(super) pooled: Vec<f32>,
}

/// What a run is given: for every place a token, or a vector of the prompt's own.
struct Row {
    ids: Vec<u32>,
    vectors: Vec<(usize, Vec<f32>)>,
    /// The end token's place.
    end: usize,
}

/// Encodes prompts with encoder `i` of `text`, chunk by chunk with one session.
pub(super) fn run(
    store: &Store,
    text: &TextEncoders,
    i: usize,
    prompts: &[Tokens],
    inversions: &Inversions<'_>,
    control: &Control<'_>,
) -> Result<Vec<Output>, EngineError> {
    let (layout, width) = (text.layout(i), text.encoders()[i].config.width);
    let rows = |prompt: &Tokens| -> Vec<Row> {
        let chunks = prompt.chunks.iter();
        chunks.map(|c| row(c, &layout, width, inversions)).collect()
    };
    let all: Vec<Vec<Row>> = prompts.iter().map(rows).collect();
    let wants = Wants {
        tokens: layout.min_length,
        states: text.want(i),
        vectors: all.iter().flatten().any(|row| !row.vectors.is_empty()),
    };
    let recorded = store.plan(&text.id(i), format!("{wants:?}"), || {
        Recorded::new(store.device(), text, i, wants)
    })?;
    let mut lease = store.open(&Network {
        stage: Stage::Text,
        net: text.id(i),
        plans: std::slice::from_ref(&recorded.plan),
        beside: 0,
        source: &|| Ok(Arc::new(text.source(i))),
    })?;
    let mut once = |row: &Row| recorded.run(lease.session(), row, control.cancel);
    let empty = if prompts.iter().any(Tokens::weighted) {
        let empty = Row {
            ids: layout.empty(layout.min_length),
            vectors: Vec::new(),
            end: 1,
        };
        once(&empty)?.hidden
    } else {
        Vec::new()
    };
    let mut outputs = Vec::new();
    for (prompt, rows) in prompts.iter().zip(&all) {
        let mut output = Output {
            hidden: Vec::new(),
            pooled: Vec::new(),
        };
        for (i, (chunk, row)) in prompt.chunks.iter().zip(rows).enumerate() {
            let mut made = once(row)?;
            if prompt.weighted() {
                apply_weights(&mut made.hidden, &empty, &chunk.weights(), width);
            }
            output.hidden.append(&mut made.hidden);
            if i == 0 {
                output.pooled = made.pooled;
            }
        }
        outputs.push(output);
    }
    lease.finish();
    Ok(outputs)
}

/// Vectors of another width are left out and the row filled up behind, as ComfyUI does; weights
/// stay where they were.
fn row(chunk: &Chunk, layout: &Layout, width: usize, inversions: &Inversions<'_>) -> Row {
    let mut ids = Vec::new();
    let mut vectors = Vec::new();
    let mut end = chunk.end;
    for (at, token) in chunk.tokens.iter().enumerate() {
        match &token.piece {
            Piece::Id(id) => ids.push(*id),
            Piece::Embedding { name, index } => match inversions.get(name) {
                Some(found) if found.width == width => {
                    vectors.push((ids.len(), found.row(*index).to_vec()));
                    ids.push(layout.pad);
                }
                _ => end -= usize::from(at < chunk.end),
            },
        }
    }
    ids.resize(chunk.tokens.len(), layout.pad);
    Row { ids, vectors, end }
}

/// What an encoder is recorded for.
#[derive(Clone, Copy, Debug)]
struct Wants {
    tokens: usize,
    states: clip::Want,
    /// Some places hold vectors of textual inversions instead of tokens.
    vectors: bool,
}

struct Recorded {
    plan: Arc<Plan>,
    ids: Node,
    end: Node,
    /// Vectors to add and, at every place, whether the token's own counts.
    vectors: Option<(Node, Node)>,
    out: clip::Encoded,
}

impl Recorded {
    fn new(
        device: &dyn Device,
        text: &TextEncoders,
        i: usize,
        wants: Wants,
    ) -> Result<Recorded, EngineError> {
        let (c, source, n) = (&text.encoders()[i].config, text.source(i), wants.tokens);
        let params = source.params(|stored| text.held(stored, device));
        let mut g = Graph::new();
        let ids = g.input("ids", [1, n], DType::I32);
        let end = g.input("end", [1, 1, n], DType::F32);
        // Text encoders are small and their rounding shows in every step: always f32.
        let mut x = clip::embed(&mut g, &params, c, ids, DType::F32);
        let vectors = wants.vectors.then(|| {
            let given = g.input("vectors", [1, n, c.width], DType::F32);
            let keep = g.input("keep", [1, n, 1], DType::F32);
            x = g.mul(x, keep);
            x = g.add(x, given);
            (given, keep)
        });
        let out = clip::encoder(&mut g, &params, c, x, end, wants.states);
        g.output(out.hidden);
        out.pooled.iter().for_each(|&p| g.output(p));
        // A prompt and its negative, most often.
        let plan = fit(device, &g.finish()?, 2)?;
        Ok(Recorded {
            plan,
            ids,
            end,
            vectors,
            out,
        })
    }

    fn run(
        &self,
        session: &mut dyn Session,
        row: &Row,
        cancel: &AtomicBool,
    ) -> Result<Output, EngineError> {
        let (graph, n) = (self.plan.graph(), row.ids.len());
        let bytes = row.ids.iter().flat_map(|&id| (id as i32).to_le_bytes());
        session.write(self.ids, &bytes.collect::<Vec<u8>>())?;
        if self.out.pooled.is_some() {
            let mut mark = vec![0.0; n];
            mark[row.end] = 1.0;
            write(session, graph, self.end, &mark)?;
        }
        if let Some((given, keep)) = self.vectors {
            let width = graph.shape(given).last_dim();
            let (mut values, mut tokens) = (vec![0.0; n * width], vec![1.0; n]);
            for (at, vector) in &row.vectors {
                values[at * width..][..width].copy_from_slice(vector);
                tokens[*at] = 0.0;
            }
            write(session, graph, given, &values)?;
            write(session, graph, keep, &tokens)?;
        }
        session.run(RunOptions {
            cancel: Some(cancel),
            ..RunOptions::default()
        })?;
        let pooled = self
            .out
            .pooled
            .map(|p| read(session, graph, p))
            .transpose()?;
        Ok(Output {
            hidden: read(session, graph, self.out.hidden)?,
            pooled: pooled.unwrap_or_default(),
        })
    }
}

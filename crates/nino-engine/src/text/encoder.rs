//! One text encoder on a device: chunks of tokens and vectors in, hidden states and pooled text
//! out.

use super::inversion::Inversions;
use crate::fit::{Room, fit_within};
use crate::model::States;
use crate::store::Network;
use crate::values::{read, write};
use crate::{Control, EngineError, Stage, Store, TextEncoders};
use nino_dtype::DType;
use nino_graph::{Device, Graph, Node, Plan, RunOptions, Session};
use nino_models::{clip, llm, t5};
use nino_text::{Chunk, Layout, Piece, Tokens, apply_weights};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Default)]
pub(super) struct Output {
    /// `[tokens, width]`, all chunks one after the other.
    pub(super) hidden: Vec<f32>,
    /// The first chunk's pooled vector; empty where the family has none.
    pub(super) pooled: Vec<f32>,
}

/// Added to the score of a place that is not seen.
const UNSEEN: f32 = -1e30;

/// What a run is given: for every place a token, or a vector of the prompt's own.
struct Row {
    ids: Vec<u32>,
    vectors: Vec<(usize, Vec<f32>)>,
    /// The end token's place.
    end: usize,
    /// Frame, row and column of every place, where pictures are among them.
    places: Option<Vec<[u32; 3]>>,
    /// `[places, width]` each: what is added behind the first, second, … layer.
    deep: Vec<Vec<f32>>,
}

/// Encodes prompts with encoder `i` of `text`, chunk by chunk, with one session for each length of
/// chunk, while the caller holds `beside` bytes of host memory. States that are not finite in half
/// precision are made again in f32, which is told.
pub(super) fn run(
    store: &Store,
    text: &TextEncoders,
    i: usize,
    prompts: &[Tokens],
    inversions: &Inversions<'_>,
    beside: usize,
    control: &mut Control<'_>,
) -> Result<Vec<Output>, EngineError> {
    let given = Given {
        prompts,
        inversions,
        beside,
    };
    let layers = text.layers(i, store.device());
    let outputs = run_in(store, text, i, layers, &given, control)?;
    let finite = |o: &Output| o.hidden.iter().chain(&o.pooled).all(|v| v.is_finite());
    if layers == DType::F32 || outputs.iter().all(finite) {
        return Ok(outputs);
    }
    control.note(format!(
        "values were not finite in {layers}: the prompt is encoded again in f32"
    ));
    run_in(store, text, i, DType::F32, &given, control)
}

/// What is encoded.
struct Given<'a> {
    prompts: &'a [Tokens],
    inversions: &'a Inversions<'a>,
    beside: usize,
}

fn run_in(
    store: &Store,
    text: &TextEncoders,
    i: usize,
    layers: DType,
    &Given {
        prompts,
        inversions,
        beside,
    }: &Given<'_>,
    control: &Control<'_>,
) -> Result<Vec<Output>, EngineError> {
    let (layout, width) = (text.layout(i), text.encoders()[i].config.width());
    let rows = |prompt: &Tokens| -> Vec<Row> {
        let chunks = prompt.chunks.iter();
        chunks.map(|c| row(c, &layout, width, inversions)).collect()
    };
    let all: Vec<Vec<Row>> = prompts.iter().map(rows).collect();
    let shape = |row: &Row| (row.ids.len(), row.places.clone(), row.deep.len());
    let mut shapes: Vec<_> = all.iter().flatten().map(shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    let mut made: Vec<Vec<Output>> = all.iter().map(|_| Vec::new()).collect();
    for (n, places, deep) in shapes {
        let of_shape = |row: &Row| shape(row) == (n, places.clone(), deep);
        let wants = Wants {
            tokens: n,
            places: places.clone(),
            deep,
            states: text.states(i),
            vectors: all.iter().flatten().any(|row| !row.vectors.is_empty()),
            layers,
            beside,
        };
        let recorded = store.plan(&text.id(i), format!("{wants:?}"), || {
            Recorded::new(store.device(), text, i, &wants)
        })?;
        let mut lease = store.open(&Network {
            stage: Stage::Text,
            net: text.id(i),
            plans: std::slice::from_ref(&recorded.plan),
            beside,
            source: &|| Ok(Arc::new(text.source(i))),
        })?;
        let mut once = |row: &Row| recorded.run(lease.session(), row, control.cancel);
        let mut empty = None;
        for ((prompt, rows), made) in prompts.iter().zip(&all).zip(&mut made) {
            let chunks = prompt.chunks.iter().zip(rows);
            for (chunk, row) in chunks.filter(|(_, row)| of_shape(row)) {
                let mut output = once(row)?;
                if prompt.weighted() && text.gives_context(i) {
                    let empty = match &mut empty {
                        Some(empty) => empty,
                        empty => empty.insert(once(&Row::empty(&layout, n))?.hidden),
                    };
                    apply_weights(&mut output.hidden, empty, &chunk.weights(), width);
                }
                output.hidden.drain(..chunk.cut * text.width(i));
                made.push(output);
            }
        }
        lease.finish();
    }
    Ok(made.into_iter().map(joined).collect())
}

/// The chunks of a prompt one after the other; the first one's pooled vector. Chunks of one prompt
/// have one length, so they are in their order.
fn joined(chunks: Vec<Output>) -> Output {
    let mut chunks = chunks.into_iter();
    let first = chunks.next().unwrap_or_default();
    chunks.fold(first, |mut all, mut chunk| {
        all.hidden.append(&mut chunk.hidden);
        all
    })
}

impl Row {
    /// The empty prompt of `n` tokens.
    fn empty(layout: &Layout, n: usize) -> Row {
        Row {
            ids: layout.empty(n),
            vectors: Vec::new(),
            end: layout.start.iter().len().min(n - 1),
            places: None,
            deep: Vec::new(),
        }
    }
}

/// Vectors of another width are left out and the row filled up behind, as ComfyUI does; weights
/// stay where they were.
fn row(chunk: &Chunk, layout: &Layout, width: usize, inversions: &Inversions<'_>) -> Row {
    let mut ids = Vec::new();
    let mut vectors = Vec::new();
    let mut deep: Vec<Vec<f32>> = Vec::new();
    let mut end = chunk.end;
    for (at, token) in chunk.tokens.iter().enumerate() {
        match &token.piece {
            Piece::Id(id) => ids.push(*id),
            Piece::Embedding { name, index } => match inversions.get(name) {
                Some(found) if found.width == width => {
                    vectors.push((ids.len(), found.row(*index).to_vec()));
                    deep.resize_with(deep.len().max(found.deep.len()), || {
                        vec![0.0; chunk.tokens.len() * width]
                    });
                    for (to, from) in deep.iter_mut().zip(&found.deep) {
                        to[ids.len() * width..][..width]
                            .copy_from_slice(&from[index * width..][..width]);
                    }
                    ids.push(layout.pad);
                }
                _ => end -= usize::from(at < chunk.end),
            },
        }
    }
    ids.resize(chunk.tokens.len(), layout.pad);
    Row {
        places: places(chunk, inversions),
        ids,
        vectors,
        end,
        deep,
    }
}

/// Where the tokens of a chunk with pictures are: words one after the other, a picture's tokens by
/// row and column from the place that it begins at; `None` of words alone.
fn places(chunk: &Chunk, inversions: &Inversions<'_>) -> Option<Vec<[u32; 3]>> {
    let grid = |name: &str| inversions.get(name).and_then(|found| found.grid);
    let (mut places, mut next, mut any) = (Vec::new(), 0, false);
    for token in &chunk.tokens {
        let Piece::Embedding { name, index } = &token.piece else {
            places.push([next; 3]);
            next += 1;
            continue;
        };
        let Some([rows, columns]) = grid(name) else {
            places.push([next; 3]);
            next += 1;
            continue;
        };
        any = true;
        let (row, column) = (index / columns.max(1), index % columns.max(1));
        places.push([next, next + row as u32, next + column as u32]);
        if index + 1 == rows * columns {
            next += rows.max(columns) as u32;
        }
    }
    any.then_some(places)
}

/// What an encoder is recorded for.
#[derive(Clone, Debug)]
struct Wants {
    tokens: usize,
    places: Option<Vec<[u32; 3]>>,
    /// Layers behind which something is added.
    deep: usize,
    states: States,
    /// Some places hold vectors of textual inversions instead of tokens.
    vectors: bool,
    /// How activations inside of layers are stored.
    layers: DType,
    /// Bytes of host memory that are held meanwhile.
    beside: usize,
}

struct Recorded {
    plan: Arc<Plan>,
    ids: Node,
    /// Where the pooled vector is read; `None` where there is none.
    end: Option<Node>,
    /// What is added to the scores at every place; `None` where all are seen.
    mask: Option<Node>,
    /// Whether the state of a place counts; `None` where all do.
    counts: Option<Node>,
    /// Vectors to add and, at every place, whether the token's own counts.
    vectors: Option<(Node, Node)>,
    /// What is added behind the first, second, … layer.
    deep: Vec<Node>,
    hidden: Node,
    pooled: Option<Node>,
}

impl Recorded {
    fn new(
        device: &dyn Device,
        text: &TextEncoders,
        i: usize,
        wants: &Wants,
    ) -> Result<Recorded, EngineError> {
        let n = wants.tokens;
        let width = text.encoders()[i].config.width();
        let source = text.source(i);
        let params = source.params(|stored| text.held(stored, device));
        let mut g = Graph::new();
        let ids = g.input("ids", [1, n], DType::I32);
        // CLIP's rounding shows in every step, and what is between the layers of the others grows
        // large: f32.
        let mut x = match &wants.states {
            States::Clip { config, .. } => clip::embed(&mut g, &params, config, ids, DType::F32),
            States::T5 { config, .. } => t5::embed(&mut g, &params, config, ids, DType::F32),
            States::Llm { config, .. } => llm::embed(&mut g, &params, config, ids, DType::F32),
        };
        let vectors = wants.vectors.then(|| {
            let given = g.input("vectors", [1, n, width], DType::F32);
            let keep = g.input("keep", [1, n, 1], DType::F32);
            x = g.mul(x, keep);
            x = g.add(x, given);
            (given, keep)
        });
        let deep: Vec<Node> = (0..wants.deep)
            .map(|i| g.input(&format!("seen behind layer {i}"), [1, n, width], DType::F32))
            .collect();
        let (mut mask, mut counts) = (None, None);
        let (hidden, pooled, end) = match &wants.states {
            States::Clip { config, want } => {
                let end = g.input("end", [1, 1, n], DType::F32);
                let out = clip::encoder(&mut g, &params, config, x, end, *want);
                (out.hidden, out.pooled, out.pooled.map(|_| end))
            }
            &States::T5 {
                ref config,
                skip,
                masked,
            } => {
                if masked {
                    mask = Some(g.input("mask", [1, 1, 1, n], DType::F32));
                    counts = Some(g.input("counts", [1, n, 1], DType::F32));
                }
                let want = t5::Want {
                    skip,
                    mask,
                    layers: wants.layers,
                };
                let states = t5::encoder(&mut g, &params, config, x, want);
                let states = counts.map_or(states, |counts| g.mul(states, counts));
                (states, None, None)
            }
            States::Llm { config, taps, norm } => {
                let seen = g.input("mask", [1, 1, 1, n], DType::F32);
                mask = Some(seen);
                let want = llm::Want {
                    taps,
                    mask: seen,
                    positions: wants.places.as_deref(),
                    deepstack: &deep,
                    layers: wants.layers,
                };
                let mut states = llm::encoder(&mut g, &params, config, x, &want);
                if *norm {
                    states = llm::final_norm(&mut g, &params, config, states);
                }
                (states, None, None)
            }
        };
        g.output(hidden);
        pooled.iter().for_each(|&p| g.output(p));
        // A prompt and its negative, most often.
        let room = Room {
            beside: wants.beside,
            ..Room::default()
        };
        let plan = fit_within(device, &g.finish()?, 2, room)?;
        Ok(Recorded {
            plan,
            ids,
            end,
            mask,
            counts,
            vectors,
            deep,
            hidden,
            pooled,
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
        if let Some(end) = self.end {
            let mut mark = vec![0.0; n];
            mark[row.end] = 1.0;
            write(session, graph, end, &mark)?;
        }
        let per_place = |seen: f32, unseen: f32| -> Vec<f32> {
            let value = |at: usize| if at <= row.end { seen } else { unseen };
            (0..n).map(value).collect()
        };
        if let Some(mask) = self.mask {
            write(session, graph, mask, &per_place(0.0, UNSEEN))?;
        }
        if let Some(counts) = self.counts {
            write(session, graph, counts, &per_place(1.0, 0.0))?;
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
        for (&node, values) in self.deep.iter().zip(&row.deep) {
            write(session, graph, node, values)?;
        }
        session.run(RunOptions {
            cancel: Some(cancel),
            ..RunOptions::default()
        })?;
        let pooled = self.pooled.map(|p| read(session, graph, p)).transpose()?;
        Ok(Output {
            hidden: read(session, graph, self.hidden)?,
            pooled: pooled.unwrap_or_default(),
        })
    }
}

//! What would serve in the place of a node whose class is not known: classes that give what the
//! other nodes take of it, and take what it is given.

use crate::graph::{Graph, Input, Node};
use crate::node::{InputKind, Need, NodeDef};
use crate::nodes;
use crate::types::Socket;

/// Classes that are named.
const NAMED: usize = 3;

/// What is known of a node from those around it.
struct Around<'g> {
    node: &'g Node,
    /// Types that other nodes take of it.
    gives: Vec<Socket>,
    /// Types that it is linked to.
    takes: Vec<Socket>,
    is_last: bool,
}

/// The classes that would serve, the likeliest first.
pub(super) fn would_serve(graph: &Graph, id: &str, node: &Node) -> Vec<&'static str> {
    let around = Around::of(graph, id, node);
    let listed = nodes::all().filter(|def| def.is_listed());
    let likely = listed.filter_map(|def| Some((around.likeness(def)?, def.class)));
    let mut likely: Vec<(i32, &str)> = likely.collect();
    // Of equals, ComfyUI's own before those of node packs.
    let of_pack = |class: &str| class.starts_with("ROCM");
    likely.sort_by_key(|(likeness, class)| (-likeness, of_pack(class), *class));
    let best = likely.first().map_or(0, |(likeness, _)| *likeness);
    // What is much less like it than the best would only be in the way.
    let near = likely
        .into_iter()
        .filter(|(likeness, _)| likeness * 2 > best);
    near.map(|(_, class)| class).take(NAMED).collect()
}

impl<'g> Around<'g> {
    fn of(graph: &'g Graph, id: &str, node: &'g Node) -> Around<'g> {
        let def_of = |node: &Node| node.class.as_deref().and_then(nodes::find);
        let mut gives = Vec::new();
        let mut is_last = true;
        for (_, other) in graph.iter() {
            for (name, input) in &other.inputs {
                let Input::Link(link) = input else { continue };
                if link.node != id {
                    continue;
                }
                is_last = false;
                let taken = def_of(other).and_then(|def| def.input(name));
                gives.extend(taken.map(|input| input.kind.socket()));
            }
        }
        let linked = node.links().filter_map(|link| {
            let def = graph.get(&link.node).and_then(def_of)?;
            Some(def.outputs.get(link.slot)?.socket)
        });
        let is_told = |socket: &Socket| *socket != Socket::Any;
        let mut takes: Vec<Socket> = linked.filter(is_told).collect();
        takes.sort_unstable_by_key(|socket| socket.name());
        gives.retain(is_told);
        gives.sort_unstable_by_key(|socket: &Socket| socket.name());
        gives.dedup();
        Around {
            node,
            gives,
            takes,
            is_last,
        }
    }

    /// How like a class is to what is missing; `None` of one that could not be put there.
    fn likeness(&self, def: &NodeDef) -> Option<i32> {
        let gives = |socket: &Socket| def.outputs.iter().any(|o| o.socket == *socket);
        if !self.gives.iter().all(gives) || self.is_last != def.is_output {
            return None;
        }
        let shared = |name: &str| self.node.inputs.contains_key(name);
        // A word of its name alone says too little.
        let alone = self.gives.is_empty() && self.takes.is_empty();
        if alone && !def.inputs.iter().any(|input| shared(input.name)) {
            return None;
        }
        let mut left = self.takes.clone();
        let mut likeness = 0;
        for input in def.inputs {
            likeness += 2 * i32::from(shared(input.name));
            let InputKind::Socket(socket) = input.kind else {
                continue;
            };
            match left.iter().position(|taken| *taken == socket) {
                Some(place) => {
                    left.remove(place);
                    likeness += 2;
                }
                // Something that nobody gives.
                None if input.need == Need::Required => likeness -= 3,
                None => {}
            }
        }
        likeness -= i32::try_from(left.len()).unwrap_or(i32::MAX);
        let class = self.node.class.as_deref().unwrap_or_default();
        let own = words(class);
        let common = words(def.class).into_iter().filter(|w| own.contains(w));
        likeness += 3 * common.count() as i32;
        likeness += 2 * self.gives.len() as i32;
        // More outputs than are wanted is another kind of node.
        likeness -= def.outputs.len().abs_diff(self.gives.len()) as i32;
        (likeness > 2).then_some(likeness)
    }
}

/// The words of a class, such as `clip`, `text` and `encode`.
fn words(class: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in class.chars() {
        let begins = c.is_uppercase() && !before.is_uppercase() || !before.is_alphanumeric();
        before = c;
        if !c.is_alphanumeric() {
            continue;
        }
        match words.last_mut() {
            Some(word) if !begins => word.extend(c.to_lowercase()),
            _ => words.push(c.to_lowercase().collect()),
        }
    }
    words.retain(|word| word.len() > 2);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use serde_json::json;

    #[test]
    fn classes_have_words() {
        assert_eq!(words("CLIPTextEncode"), ["cliptext", "encode"]);
        assert_eq!(words("KSampler (Efficient)"), ["ksampler", "efficient"]);
        assert_eq!(words("Checkpoint_Loader"), ["checkpoint", "loader"]);
    }

    #[test]
    fn what_takes_and_gives_the_same_would_serve() {
        let graph = json!({
            "1": { "class_type": "Checkpoint Loader Plus", "inputs": { "ckpt_name": "m" } },
            "2": { "class_type": "CLIPTextEncode", "inputs": { "text": "", "clip": ["1", 1] } },
            "3": { "class_type": "EmptyLatentImage", "inputs": {} },
            "4": { "class_type": "KSampler Fancy", "inputs": {
                "model": ["1", 0], "positive": ["2", 0], "negative": ["2", 0],
                "latent_image": ["3", 0], "seed": 1, "steps": 2, "cfg": 3, "shininess": 9 } },
            "5": { "class_type": "VAEDecode", "inputs": { "samples": ["4", 0], "vae": ["1", 2] } },
            "6": { "class_type": "Image Save", "inputs": {
                "images": ["5", 0], "filename_prefix": "x" } },
            "7": { "class_type": "Image Of Nothing", "inputs": {} },
            "8": { "class_type": "FancyDecoder", "inputs": {
                "samples": ["3", 0], "vae": ["10", 0] } },
            "10": { "class_type": "VAELoader", "inputs": { "vae_name": "v" } },
            "9": { "class_type": "PreviewImage", "inputs": { "images": ["8", 0] } },
        });
        let graph = Graph::from_value(graph, &Limits::default()).unwrap();
        let served = |id: &str| would_serve(&graph, id, graph.get(id).unwrap());
        assert_eq!(served("1")[0], "CheckpointLoaderSimple");
        assert_eq!(served("4")[0], "KSampler");
        assert_eq!(served("6")[0], "SaveImage");
        assert_eq!(served("8")[0], "VAEDecode");
        assert!(served("7").is_empty(), "{:?}", served("7"));
    }
}

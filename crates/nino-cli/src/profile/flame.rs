//! The timeline as a flame chart in SVG: a row of stages, a row of kinds of op, a row of layers.
//! Widths are sums of time; what takes less than a pixel is left out.

use nino_engine::timeline::Timeline;
use std::collections::BTreeMap;
use std::time::Duration;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 24.0;
/// Pixels of a letter, about.
const LETTER: f64 = 7.0;
const COLORS: [&str; 3] = ["#dd8452", "#4c72b0", "#55a868"];

/// A box and those above it.
#[derive(Default)]
struct Node {
    time: Duration,
    children: BTreeMap<String, Node>,
}

impl Node {
    fn child(&mut self, name: &str, time: Duration) -> &mut Node {
        let child = self.children.entry(name.to_owned()).or_default();
        child.time += time;
        child
    }
}

pub(super) fn render(timeline: &Timeline) -> String {
    let mut root = Node::default();
    for span in &timeline.spans {
        root.time += span.time;
        let stage = root.child(span.stage.name(), span.time);
        for op in &span.ops {
            stage.child(op.kind, op.time).child(&op.label, op.time);
        }
    }
    let mut boxes = Vec::new();
    let scale = WIDTH / root.time.as_secs_f64().max(f64::MIN_POSITIVE);
    draw(&root, 0.0, 0, scale, &mut boxes);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" \
         font-family=\"monospace\" font-size=\"11\">\n{}\n</svg>\n",
        ROW * 3.0,
        boxes.join("\n")
    )
}

fn draw(node: &Node, left: f64, depth: usize, scale: f64, boxes: &mut Vec<String>) {
    let mut x = left;
    let mut children: Vec<_> = node.children.iter().collect();
    children.sort_by_key(|(_, child)| std::cmp::Reverse(child.time));
    for (name, child) in children {
        let width = child.time.as_secs_f64() * scale;
        if width >= 1.0 {
            let name = escaped(name);
            let ms = child.time.as_secs_f64() * 1e3;
            let y = depth as f64 * ROW;
            let letters = (width / LETTER) as usize;
            let shown: String = name.chars().take(letters).collect();
            boxes.push(format!(
                "<g><title>{name}: {ms:.1} ms</title><rect x=\"{x:.1}\" y=\"{y}\" \
                 width=\"{:.1}\" height=\"{}\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{}\" \
                 fill=\"white\">{shown}</text></g>",
                width - 0.5,
                ROW - 1.0,
                COLORS[depth % COLORS.len()],
                x + 3.0,
                y + 16.0,
            ));
            draw(child, x, depth + 1, scale, boxes);
        }
        x += width;
    }
}

/// Text without what SVG reads as its own; the same number of letters.
fn escaped(text: &str) -> String {
    text.replace(['<', '>', '&', '"'], "_")
}

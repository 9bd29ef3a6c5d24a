//! Memory over time in SVG: what plans say and what the operating system saw.

use nino_engine::timeline::{MemoryPoint, Timeline};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 300.0;

pub(super) fn render(timeline: &Timeline) -> String {
    let points = &timeline.memory;
    let bytes = points.iter().flat_map(|p| [Some(p.planned), p.resident]);
    let most = bytes.flatten().max().unwrap_or(1).max(1) as f64;
    let end = points.last().map_or(1.0, |p| p.at.as_secs_f64().max(1e-9));
    let line = |color: &str, value: &dyn Fn(&MemoryPoint) -> Option<usize>| {
        let at = points.iter().filter_map(|p| {
            let x = WIDTH * p.at.as_secs_f64() / end;
            let y = HEIGHT * (1.0 - value(p)? as f64 / most);
            Some(format!("{x:.1},{y:.1}"))
        });
        let at: Vec<String> = at.collect();
        format!(
            "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" points=\"{}\"/>",
            at.join(" ")
        )
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n{}\n{}\n<text x=\"4\" y=\"{}\">{:.2} s; \
         peak {:.0} MiB; blue: planned, orange: this process</text>\n</svg>\n",
        HEIGHT + 24.0,
        line("#4c72b0", &|p| Some(p.planned)),
        line("#dd8452", &|p| p.resident),
        HEIGHT + 17.0,
        end,
        most / f64::from(1 << 20),
    )
}

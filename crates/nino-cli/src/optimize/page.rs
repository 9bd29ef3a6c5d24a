//! The report as a page: the table, and the pictures beside the base's.

use super::report::{Document, GAIN, Row};
use crate::plural::count;
use std::fmt::Write as _;

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1b; background: #fff }
table { border-collapse: collapse; width: 100% }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right;
  white-space: nowrap }
th:first-child, td:first-child { text-align: left; white-space: normal }
.bar { width: 9rem; text-align: left }
.bar i { display: block; height: .7rem; background: #4a7fb5 }
.kept td { background: #eaf5ea }
.kept .bar i { background: #3d8b40 }
code { background: #f2f2f2; padding: .1rem .3rem }
.way { display: flex; gap: 1rem; margin: .5rem 0 1.5rem }
figure { margin: 0; flex: 1; max-width: 20rem }
figure img { width: 100%; image-rendering: pixelated; border: 1px solid #ddd }
figcaption { color: #555; font-size: .85rem }
";

/// The page, whose pictures lie beside it.
pub(super) fn render(document: &Document) -> String {
    let title = format!("{} on {}", document.model, document.device_model);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta \
         charset=\"utf-8\">\n<title>{0}</title>\n<style>{STYLE}</style>\n<h1>{0}</h1>\n<p>“{1}”, \
         {2}×{3}, {4} on {5}. Times are medians of {6} after a warm-up; the bar is the time \
         relative to the baseline. An option is kept if the PSNR of its image relative to f32 is \
         at least {7} dB and it takes less time or memory.</p>\n",
        escaped(&title),
        escaped(&document.prompt),
        document.width,
        document.height,
        count(document.steps, "step"),
        escaped(&document.device),
        count(document.runs, "run"),
        document.min_psnr,
    );
    best(&mut page, document);
    table(&mut page, document);
    if let [base, ways @ ..] = &document.rows[..] {
        for way in ways {
            pictures(&mut page, base, way);
        }
    }
    page
}

fn best(page: &mut String, document: &Document) {
    if document.settings.is_empty() {
        page.push_str("<p>Nothing is better than f32 here.</p>\n");
        return;
    }
    page.push_str("<p>Best, as <code>--profile measured</code> sets it:</p>\n<ul>\n");
    for best in &document.settings {
        let _ = writeln!(
            page,
            "<li><code>{} = {}</code>: {}</li>",
            escaped(&best.key),
            escaped(&best.value),
            escaped(&best.why)
        );
    }
    page.push_str("</ul>\n");
}

fn table(page: &mut String, document: &Document) {
    page.push_str(
        "<table>\n<tr><th>option<th>median ms<th>fastest to slowest<th class=\"bar\">time<th>peak \
         MiB<th>PSNR<th>kept</tr>\n",
    );
    let base = document.rows.first().map_or(1.0, |row| row.median_ms);
    for row in &document.rows {
        let share = 100.0 * row.median_ms / base.max(f64::MIN_POSITIVE);
        let _ = writeln!(
            page,
            "<tr{}><td>{}<td>{:.1}<td>{:.1} to {:.1}<td class=\"bar\"><i style=\"width: \
             {:.0}%\"></i>{share:.0} %<td>{}<td>{}<td>{}</tr>",
            if row.kept { " class=\"kept\"" } else { "" },
            escaped(&row.option),
            row.median_ms,
            row.fastest_ms,
            row.slowest_ms,
            share.min(100.0),
            row.peak_bytes >> 20,
            row.likeness(),
            if row.kept { "yes" } else { "" },
        );
    }
    page.push_str("</table>\n");
}

fn pictures(page: &mut String, base: &Row, way: &Row) {
    let _ = writeln!(
        page,
        "<h2>{}</h2>\n<div class=\"way\">",
        escaped(&way.option)
    );
    figure(page, &base.picture, "f32");
    figure(page, &way.picture, &way.likeness());
    if let Some(difference) = &way.difference {
        figure(page, difference, &format!("difference, {GAIN} times"));
    }
    page.push_str("</div>\n");
}

fn figure(page: &mut String, file: &str, caption: &str) {
    let _ = writeln!(
        page,
        "<figure><img src=\"{0}\" alt=\"{1}\"><figcaption>{1}</figcaption></figure>",
        escaped(file),
        escaped(caption)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn text_stays_text() {
        assert_eq!(escaped("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
    }
}

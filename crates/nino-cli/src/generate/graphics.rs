//! Pictures in a terminal: kitty's protocol, iTerm2's, and sixels.

#[cfg(test)]
mod tests;

use crate::env::Env;
use nino_engine::Picture;
use nino_engine::media::png;
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Graphics {
    Kitty,
    Iterm,
    Sixel,
}

impl Graphics {
    /// What the terminal is known to draw, by the variables it sets.
    pub(crate) fn of(env: &Env) -> Option<Graphics> {
        let term = env.term.as_deref().unwrap_or("");
        // Multiplexers pass none of these on.
        if term.starts_with("screen") || term.starts_with("tmux") || term == "dumb" {
            return None;
        }
        match env.term_program.as_deref() {
            Some("ghostty") => return Some(Graphics::Kitty),
            Some("iTerm.app" | "WezTerm" | "rio" | "Tabby" | "mintty") => {
                return Some(Graphics::Iterm);
            }
            _ => {}
        }
        if env.kitty || term == "xterm-kitty" || term == "xterm-ghostty" {
            return Some(Graphics::Kitty);
        }
        let sixel = term.starts_with("foot") || term.contains("sixel") || term == "mlterm";
        sixel.then_some(Graphics::Sixel)
    }

    /// The escape sequence that draws a picture `rows` lines high from where the cursor is.
    pub(super) fn picture(self, picture: &Picture, rows: usize) -> String {
        match self {
            Graphics::Kitty => kitty(picture, rows),
            Graphics::Iterm => iterm(picture, rows),
            Graphics::Sixel => sixel(picture, rows),
        }
    }
}

/// Raw RGB in chunks of 4096 characters. The same id each time replaces the picture before; `C=1`
/// leaves the cursor, `q=2` asks for no answer.
fn kitty(picture: &Picture, rows: usize) -> String {
    let data = base64(&picture.rgb);
    let mut out = String::new();
    let mut chunks = data.as_bytes().chunks(4096).peekable();
    let mut keys = format!(
        "a=T,f=24,s={},v={},r={rows},i=1,q=2,C=1,",
        picture.width, picture.height
    );
    while let Some(chunk) = chunks.next() {
        let more = u8::from(chunks.peek().is_some());
        let text = String::from_utf8_lossy(chunk);
        let _ = write!(out, "\x1b_G{keys}m={more};{text}\x1b\\");
        keys.clear();
    }
    out
}

fn iterm(picture: &Picture, rows: usize) -> String {
    let file = png(picture);
    format!(
        "\x1b]1337;File=inline=1;size={};height={rows};preserveAspectRatio=1:{}\x07",
        file.len(),
        base64(&file)
    )
}

/// Bands of six rows in a palette of 6x6x6 colors; a row of text is taken to be 16 pixels high.
fn sixel(picture: &Picture, rows: usize) -> String {
    let height = rows * 16;
    let width = (picture.width * height / picture.height.max(1)).max(1);
    let level = |v: u8| (usize::from(v) * 5 + 127) / 255;
    let color = |x: usize, y: usize| {
        let at = (y * picture.height / height * picture.width + x * picture.width / width) * 3;
        let rgb = &picture.rgb[at..at + 3];
        level(rgb[0]) * 36 + level(rgb[1]) * 6 + level(rgb[2])
    };
    let mut out = format!("\x1bP0;1q\"1;1;{width};{height}");
    for c in 0..216 {
        let _ = write!(
            out,
            "#{c};2;{};{};{}",
            c / 36 * 20,
            c / 6 % 6 * 20,
            c % 6 * 20
        );
    }
    for top in (0..height).step_by(6) {
        let mut used = [false; 216];
        let band: Vec<[usize; 6]> = (0..width)
            .map(|x| std::array::from_fn(|i| color(x, (top + i).min(height - 1))))
            .collect();
        band.iter().flatten().for_each(|&c| used[c] = true);
        for c in (0..216).filter(|&c| used[c]) {
            let _ = write!(out, "#{c}");
            let bits = |column: &[usize; 6]| {
                let set = column.iter().enumerate().filter(|(_, v)| **v == c);
                set.fold(0u8, |bits, (i, _)| bits | 1 << i)
            };
            for run in band.chunk_by(|a, b| bits(a) == bits(b)) {
                let _ = write!(out, "!{}{}", run.len(), char::from(63 + bits(&run[0])));
            }
            out.push('$');
        }
        out.push('-');
    }
    out.push_str("\x1b\\");
    out
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let all = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let letter = LETTERS[(all >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= three.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    out
}

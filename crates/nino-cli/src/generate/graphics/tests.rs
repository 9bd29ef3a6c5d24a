//! Which terminals draw, and what they are sent.

use super::{Graphics, base64};
use crate::env::Env;
use nino_engine::Picture;

#[test]
fn base64_is_base64() {
    for (bytes, text) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foobar", "Zm9vYmFy"),
    ] {
        assert_eq!(base64(bytes.as_bytes()), text);
    }
}

#[test]
fn terminals_are_known_by_their_variables() {
    let env = |term: &str, program: &str, kitty: bool| Env {
        term: Some(term.to_owned()),
        term_program: Some(program.to_owned()),
        kitty,
        ..Env::default()
    };
    let cases = [
        (env("xterm-kitty", "", true), Some(Graphics::Kitty)),
        (
            env("xterm-ghostty", "ghostty", false),
            Some(Graphics::Kitty),
        ),
        (
            env("xterm-256color", "iTerm.app", false),
            Some(Graphics::Iterm),
        ),
        (
            env("xterm-256color", "WezTerm", false),
            Some(Graphics::Iterm),
        ),
        (env("foot-extra", "", false), Some(Graphics::Sixel)),
        (env("xterm-256color", "vscode", false), None),
        (env("tmux-256color", "iTerm.app", false), None),
        (env("screen", "", true), None),
        (Env::default(), None),
    ];
    for (env, expected) in cases {
        assert_eq!(Graphics::of(&env), expected, "{env:?}");
    }
}

#[test]
fn every_protocol_opens_and_closes() {
    let picture = Picture {
        width: 64,
        height: 64,
        rgb: (0..64 * 64 * 3).map(|i| (i % 251) as u8).collect(),
    };
    let kitty = Graphics::Kitty.picture(&picture, 10);
    assert!(kitty.starts_with("\x1b_Ga=T,f=24,s=64,v=64,r=10,"));
    // 64x64x3 bytes are 16384 letters: four chunks, the last of which says so.
    assert_eq!(kitty.matches("\x1b_G").count(), 4);
    assert_eq!(kitty.matches("m=1;").count(), 3);
    assert!(kitty.ends_with("\x1b\\"));
    let iterm = Graphics::Iterm.picture(&picture, 10);
    assert!(iterm.starts_with("\x1b]1337;File=inline=1;") && iterm.ends_with('\x07'));
    let sixel = Graphics::Sixel.picture(&picture, 3);
    assert!(sixel.starts_with("\x1bP0;1q\"1;1;48;48#0;2;0;0;0") && sixel.ends_with("-\x1b\\"));
    assert_eq!(sixel.matches('-').count(), 8, "bands of six rows");
}

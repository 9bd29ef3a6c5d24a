//! `BREAK`, and the places where we depart from ComfyUI; the rest is in the goldens.

use super::{Run, parse};

fn text(text: &str, weight: f32) -> Run {
    Run::Text {
        text: text.to_owned(),
        weight,
    }
}

fn read(prompt: &str) -> Vec<Run> {
    parse(prompt, true, &|name| name == "cat").unwrap()
}

#[test]
fn break_is_a_word_in_capitals() {
    assert_eq!(
        read("a BREAK b"),
        [text("a ", 1.0), Run::Break, text(" b", 1.0)]
    );
    assert_eq!(read("BREAKFAST break"), [text("BREAKFAST break", 1.0)]);
    assert_eq!(
        read("a,BREAK,b"),
        [text("a,", 1.0), Run::Break, text(",b", 1.0)]
    );
}

#[test]
fn break_inside_a_group_keeps_its_weight() {
    assert_eq!(
        read("(aBREAK BREAK b:1.5)"),
        [text("aBREAK ", 1.5), Run::Break, text(" b", 1.5)]
    );
}

#[test]
fn a_weight_that_is_no_number_is_text() {
    assert_eq!(read("(gran:nan)"), [text("gran:nan", 1.1)]);
    assert_eq!(read("(a:inf)"), [text("a:inf", 1.1)]);
    assert_eq!(read("(a:1e300)"), [text("a:1e300", 1.1)]);
}

#[test]
fn an_embedding_without_a_name_is_text() {
    assert_eq!(read("embedding:"), [text("embedding:", 1.0)]);
    assert_eq!(read("embedding: \n"), [text("embedding: \n", 1.0)]);
}

#[test]
fn a_missing_embedding_is_named() {
    let missing = Run::Missing {
        name: "dog".to_owned(),
    };
    assert_eq!(read("embedding:dog, b"), [missing, text(", b", 1.0)]);
}

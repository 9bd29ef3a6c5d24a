//! Prompts with other programs' syntax, and what the built-in model makes of words.

use super::*;

#[test]
fn loras_in_a_prompt_are_taken_out() {
    let prompt = parse("a fox <lora:ink:0.8>, <lora:wool>").unwrap();
    assert_eq!(prompt.text, "a fox ,");
    let loras: Vec<String> = prompt.loras.iter().map(ToString::to_string).collect();
    assert_eq!(loras, ["ink:0.8", "wool:1"]);
    let error = parse("<lora:ink:much>").unwrap_err().to_string();
    assert!(error.contains("ink") && error.contains("much"), "{error}");
}

#[test]
fn emoji_are_named() {
    for (prompt, wanted) in [
        ("🍕", "pizza"),
        ("a 🐱 with a 🎩", "a cat face with a top hat"),
        ("🐱🍕", "cat face pizza"),
        ("sad🌧️day", "sad cloud with rain day"),
        ("7 cats #1", "7 cats #1"),
        ("猫", "猫"),
    ] {
        assert_eq!(named(prompt), wanted, "{prompt}");
    }
}

#[test]
fn words_that_are_all_unknown_are_told() {
    let knows = |word: &str| ["cat", "with", "red"].contains(&word);
    for (prompt, told) in [
        ("xyzzy", true),
        ("die Katze", true),
        ("a red xyzzy", false),
        ("with the xyzzy", true),
        ("", false),
        ("a", false),
    ] {
        assert_eq!(no_word_is_known(prompt, &knows), told, "{prompt}");
    }
}

#[test]
fn syntax_of_other_programs_gets_a_tip() {
    assert_eq!(
        syntax_tips("a (red:1.2) {cat} [blue] fox"),
        Vec::<String>::new()
    );
    for (prompt, part) in [
        ("a {red|blue} fox", "{red|blue}"),
        ("a [cat:dog:0.5]", "[cat:dog:0.5]"),
        ("a [cat|dog]", "[cat|dog]"),
    ] {
        let tips = syntax_tips(prompt);
        assert!(tips.len() == 1 && tips[0].contains(part), "{tips:?}");
    }
}

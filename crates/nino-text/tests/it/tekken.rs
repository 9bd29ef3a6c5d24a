//! Mistral's tokens with the beginning of its vocabulary, as ComfyUI makes them.

use crate::golden;
use nino_text::ByteBpe;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
}

fn vocabulary() -> Vec<u8> {
    golden::bytes("../generate/tiny_flux2.tekken.json")
}

#[test]
fn texts_have_mistrals_tokens() {
    let tekken = ByteBpe::from_tekken(&vocabulary()).unwrap();
    let cases: Vec<Case> = serde_json::from_slice(&golden::bytes("tekken.json")).unwrap();
    assert!(cases.len() >= 8);
    for Case { text, ids } in cases {
        assert_eq!(tekken.encode(&text), ids, "{text:?}");
    }
}

#[test]
fn a_damaged_vocabulary_is_an_error() {
    let whole = String::from_utf8(vocabulary()).unwrap();
    let cut = &whole[..whole.len() / 2];
    assert!(ByteBpe::from_tekken(cut.as_bytes()).is_err());
    let short = r#"{"config":{"default_vocab_size":9},"vocab":[{"token_bytes":"YQ=="}]}"#;
    assert!(ByteBpe::from_tekken(short.as_bytes()).is_err());
    let no_base64 = whole.replacen("\"token_bytes\":\"", "\"token_bytes\":\"!", 1);
    assert!(ByteBpe::from_tekken(no_base64.as_bytes()).is_err());
}

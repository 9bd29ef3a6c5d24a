//! Bad vocabulary files, and merges in their order.

use super::Bpe;

const VOCAB: &[u8] =
    br#"{"a":0,"b":1,"a</w>":2,"b</w>":3,"ab</w>":4,"ba":5,"<|startoftext|>":6,"<|endoftext|>":7}"#;

fn error(vocab: &[u8], merges: &[u8]) -> String {
    Bpe::from_files(vocab, merges).err().unwrap().to_string()
}

#[test]
fn the_pair_learned_first_is_merged_first() {
    let encode = |merges: &str| {
        Bpe::from_files(VOCAB, merges.as_bytes())
            .unwrap()
            .encode("bab")
    };
    assert_eq!(encode("#version: 0.2\na b</w>\nb a\n"), [1, 4]);
    assert_eq!(encode("#version: 0.2\nb a\na b</w>\n"), [5, 3]);
}

#[test]
fn a_byte_without_a_piece_is_the_end_token() {
    let bpe = Bpe::from_files(VOCAB, b"").unwrap();
    assert_eq!(bpe.encode("az b"), [0, 7, 3]);
}

#[test]
fn errors_name_line_and_piece() {
    assert!(error(b"[]", b"").contains("vocab.json is not"));
    assert!(error(b"{}", b"").contains("<|startoftext|>"));
    assert!(error(VOCAB, b"\xff").contains("after 0 bytes"));
    assert!(error(VOCAB, b"#version\na b c").contains("line 2"));
    assert!(error(VOCAB, b"#version\n\na q").contains("line 3 needs the piece \"aq\""));
}

#[test]
fn clips_vocabulary_is_whole() {
    let bpe = Bpe::clip();
    assert_eq!(bpe.n_vocab(), 49408);
    assert_eq!(bpe.merges.0.len(), 48894);
    assert_eq!((bpe.start(), bpe.end()), (49406, 49407));
}

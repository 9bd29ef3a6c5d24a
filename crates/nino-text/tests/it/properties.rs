//! What holds for any text at all.

use nino_text::{Bpe, Error, Layout, Piece, Pieces, Unigram, tokenize};
use proptest::prelude::*;
use std::sync::LazyLock;

static CLIP: LazyLock<Bpe> = LazyLock::new(Bpe::clip);
static T5: LazyLock<Unigram> = LazyLock::new(Unigram::t5);

fn prompt() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        3 => "[a-zA-Z0-9 ,.']{0,12}",
        2 => "[()\\\\:]{1,4}",
        1 => ":-?[0-9._e]{1,6}\\)",
        1 => "\\PC{0,8}",
        1 => any::<String>(),
        1 => Just(" embedding:cat ".to_owned()),
        1 => Just("embedding:".to_owned()),
        1 => Just(" BREAK ".to_owned()),
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn ids_are_in_the_vocabulary(text in any::<String>()) {
        prop_assert!(CLIP.encode(&text).iter().all(|&id| (id as usize) < CLIP.n_vocab()));
        prop_assert!(T5.encode(&text).iter().all(|&id| (id as usize) < T5.n_vocab()));
    }

    #[test]
    fn one_chunk_takes_any_prompt(prompt in prompt()) {
        let tokens = tokenize(&*T5, &Layout::t5_flux(), &prompt, &|_| None).unwrap();
        prop_assert_eq!(tokens.chunks.len(), 1);
        prop_assert!(tokens.chunks[0].tokens.len() >= 256);
    }

    #[test]
    fn maps_of_characters_of_any_bytes_are_errors_or_fine(charsmap: Vec<u8>, text: String) {
        let pieces = vec![("<unk>".to_owned(), 0.0), ("a".to_owned(), -1.0)];
        let given = Pieces { pieces, special: vec![], unmatched: vec![], bytes: vec![], unknown: 0, charsmap: &charsmap };
        if let Ok(made) = Unigram::new(given) {
            prop_assert!(made.encode(&text).iter().all(|&id| id < 2));
        }
    }

    #[test]
    fn words_are_encoded_alone(a in "[a-z]{1,12}", b in "[A-Z]{1,12}") {
        let both = CLIP.encode(&format!("{a}  {b}"));
        prop_assert_eq!(both, [CLIP.encode(&a), CLIP.encode(&b)].concat());
    }

    #[test]
    fn chunks_have_their_form(prompt in prompt(), max_length in 0usize..90, pad_to_max: bool) {
        let filled = if pad_to_max { max_length.max(3) } else { 0 };
        let layout = Layout {
            max_length: Some(max_length),
            min_length: filled,
            ..Layout::clip_g()
        };
        let tokens = tokenize(&*CLIP, &layout, &prompt, &|n| (n == "cat").then_some(5)).unwrap();
        prop_assert!(!tokens.chunks.is_empty());
        for chunk in &tokens.chunks {
            let n = chunk.tokens.len();
            prop_assert!(n <= max_length.max(3));
            prop_assert!(!pad_to_max || n == max_length.max(3));
            prop_assert_eq!(&chunk.tokens[0].piece, &Piece::Id(49406));
            prop_assert_eq!(&chunk.tokens[chunk.end].piece, &Piece::Id(layout.end.unwrap()));
            prop_assert!(chunk.tokens.iter().all(|t| t.weight.is_finite()));
        }
    }

    #[test]
    fn a_prompt_without_syntax_is_its_text(text in "[a-z ,.!]{0,600}") {
        let tokens = tokenize(&*CLIP, &Layout::clip_l(), &text, &|_| None).unwrap();
        prop_assert!(!tokens.weighted());
        let ids = tokens.chunks.iter().flat_map(|c| &c.tokens[1..c.end]).map(|t| match t.piece {
            Piece::Id(id) => id,
            Piece::Embedding { .. } => u32::MAX,
        });
        prop_assert_eq!(ids.collect::<Vec<_>>(), CLIP.encode(&text));
    }

    #[test]
    fn vocabulary_files_of_any_bytes_are_errors(vocab: Vec<u8>, merges: Vec<u8>) {
        prop_assert!(Bpe::from_files(&vocab, &merges).is_err());
    }

    #[test]
    fn merge_files_of_any_text_are_errors_or_fine(merges in "([a-c ]{0,6}\n?){0,6}") {
        let vocab = br#"{"a":0,"b":1,"ab":2,"<|startoftext|>":3,"<|endoftext|>":4}"#;
        if let Ok(bpe) = Bpe::from_files(vocab, merges.as_bytes()) {
            prop_assert!(bpe.encode("abcab").iter().all(|&id| id < 5));
        }
    }
}

#[test]
fn a_word_of_200_000_letters_takes_no_square_time() {
    assert!(CLIP.encode(&"ab".repeat(100_000)).len() > 20_000);
    assert!(T5.encode(&"ab".repeat(100_000)).len() > 20_000);
    assert_eq!(T5.encode(&"</s>".repeat(25_000)).len(), 25_000);
}

#[test]
fn deep_nesting_is_an_error_with_its_limit() {
    let nested = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
    let read = |n| tokenize(&*CLIP, &Layout::clip_l(), &nested(n), &|_| None);
    assert!(read(512).is_ok());
    assert!(matches!(read(513), Err(Error::Nesting { limit: 512 })));
    assert!(read(200_000).is_err());
}

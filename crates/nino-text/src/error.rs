//! What can be wrong with a vocabulary or a prompt.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("vocab.json is not an object of piece names to ids: {0}")]
    Vocabulary(serde_json::Error),
    #[error("vocab.json has no piece {piece:?}")]
    MissingSpecial { piece: &'static str },
    #[error("merges.txt is not UTF-8 after {valid} bytes")]
    MergesEncoding { valid: usize },
    #[error("merges.txt line {line}: expected two pieces and one space, found {found:?}")]
    MergesLine { line: usize, found: String },
    #[error("merges.txt line {line} needs the piece {piece:?}, which vocab.json lacks")]
    MergesPiece { line: usize, piece: String },
    #[error("the vocabulary has {n} pieces, none of the id {id}")]
    PieceId { id: u32, n: usize },
    #[error("the vocabulary's character map, {bytes} bytes, is truncated")]
    Charsmap { bytes: usize },
    #[error("the sentencepiece vocabulary, {bytes} bytes, is damaged")]
    SentencePiece { bytes: usize },
    #[error("the sentencepiece vocabulary is not a unigram model but of kind {kind}")]
    NotUnigram { kind: u64 },
    #[error("piece {id} of the sentencepiece vocabulary is not UTF-8")]
    PieceText { id: u32 },
    #[error("the tekken vocabulary is not what Mistral writes: {0}")]
    Tekken(serde_json::Error),
    #[error("piece {rank} of the tekken vocabulary is not base64")]
    TekkenPiece { rank: usize },
    #[error("the tekken vocabulary has no piece for the byte {byte}")]
    Byte { byte: u8 },
    #[error("the prompt nests parentheses deeper than {limit} levels")]
    Nesting { limit: usize },
}

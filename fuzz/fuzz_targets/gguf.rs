//! Any bytes: an index whose spans lie inside the file, or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(parsed) = nino_weights::gguf::parse(bytes, 0) {
        for span in parsed.entries.iter().flat_map(|e| &e.spans) {
            assert!(span.offset + span.len <= bytes.len() as u64);
        }
    }
});

//! Any bytes, as a PyTorch file and as a bare pickle: an answer, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(parsed) = nino_weights::torch::parse(bytes, 0) {
        for span in parsed.entries.iter().flat_map(|e| &e.spans) {
            assert!(span.offset + span.len <= bytes.len() as u64);
        }
    }
    let _ = nino_weights::torch::pickle::run(bytes);
});

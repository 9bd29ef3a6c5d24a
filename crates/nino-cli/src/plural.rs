//! Numbers of things, in words that agree with them.

/// `1 step`, `2 steps`: for words whose plural ends in s.
pub(crate) fn count(n: usize, thing: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {thing}{s}")
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn one_thing_has_no_s() {
        assert_eq!(count(0, "step"), "0 steps");
        assert_eq!(count(1, "step"), "1 step");
        assert_eq!(count(2, "latent frame"), "2 latent frames");
    }
}

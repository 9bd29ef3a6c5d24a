use super::{Bytes, BytesError};

#[test]
fn reads_what_people_write() {
    let cases = [
        ("3.5GiB", 3_758_096_384),
        ("3.5 gib", 3_758_096_384),
        ("800MiB", 838_860_800),
        ("11G", 11 << 30),
        ("4GB", 4_000_000_000),
        ("1024B", 1024),
        (".5MiB", 1 << 19),
    ];
    for (text, bytes) in cases {
        assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
    }
}

#[test]
fn refuses_what_it_cannot_mean() {
    use BytesError::{NoNumber, NoUnit, TooLarge, UnknownUnit, Zero};
    let cases = [
        ("", NoNumber),
        ("GiB", NoNumber),
        ("-1GiB", Zero),
        ("1.2.3GiB", NoNumber),
        ("nan", NoNumber),
        ("4", NoUnit("4".to_owned())),
        ("4 parsecs", UnknownUnit("parsecs".to_owned())),
        ("0GiB", Zero),
        ("0.0001B", Zero),
        ("99999999TiB", TooLarge),
    ];
    for (text, wanted) in cases {
        assert_eq!(text.parse::<Bytes>(), Err(wanted), "{text}");
    }
}

#[test]
fn prints_in_the_largest_unit() {
    let cases = [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (128 << 20, "128 MiB"),
        (3_758_096_384, "3.5 GiB"),
        (96 << 30, "96 GiB"),
    ];
    for (bytes, text) in cases {
        assert_eq!(Bytes(bytes).to_string(), text);
    }
}

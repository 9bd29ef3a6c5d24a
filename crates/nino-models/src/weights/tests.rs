//! Which stored shapes become which, and the order values end up in.

use super::*;

#[test]
fn layouts() {
    let moved = |cin, taps| Some(Layout::ChannelsLast { cin, taps });
    for (stored, wanted, want) in [
        (&[8, 3, 3, 3][..], Shape::from([8, 3, 3, 3]), moved(3, 9)),
        (&[8, 4, 3, 1, 1], Shape::from([8, 3, 1, 1, 4]), moved(4, 3)),
        (&[8, 4, 1, 1], Shape::from([8, 1, 1, 4]), Some(Layout::Same)),
        (&[8, 4, 1, 1], Shape::from([8, 4]), Some(Layout::Same)),
        (&[8, 4], Shape::from([8, 1, 1, 4]), Some(Layout::Same)),
        (&[8, 4, 1, 1, 1], Shape::from([8, 4]), Some(Layout::Same)),
        (&[8, 1, 1, 1], Shape::from([8]), Some(Layout::Same)),
        (&[8, 4, 3, 3], Shape::from([8, 3, 3, 5]), None),
        (&[4, 8], Shape::from([8, 4]), None),
        (&[], Shape::from([8]), None),
    ] {
        assert_eq!(layout(stored, wanted), want, "{stored:?} to {wanted}");
    }
}

#[test]
fn channels_move_last() {
    // [cout 2, cin 2, taps 3], value = 100·cout + 10·cin + tap, two bytes each.
    let value = |o: u8, c: u8, t: u8| [100 * o + 10 * c + t, 7];
    let each = |f: &dyn Fn(u8, u8, u8) -> [u8; 2], cin_first: bool| {
        let mut bytes = Vec::new();
        for o in 0..2 {
            for i in 0..6 {
                let (c, t) = if cin_first {
                    (i / 3, i % 3)
                } else {
                    (i % 2, i / 2)
                };
                bytes.extend(f(o, c, t));
            }
        }
        bytes
    };
    let mut dst = vec![0; 24];
    channels_last_bytes(&each(&value, true), &mut dst, 2, 3, 2);
    assert_eq!(dst, each(&value, false));
}

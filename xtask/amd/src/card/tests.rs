//! Tests of the shim's copies, without a shim.

use super::*;
use crate::chip::CHIPS;

const HALO: Revision = Revision {
    device: 0x150e,
    kernel_family: 150,
    external: 0xc1,
    registers: 1536,
};

/// What a shim could hold: words, a card of this revision and registers, and words again.
fn shim(revision: u32, registers: u32) -> Vec<u8> {
    let mut words = [7; 120];
    // The PCI id alone, in another place, is no card.
    words[1] = 0x150e;
    let card = &mut words[20..];
    (card[0], card[2], card[4], card[61]) = (0x150e, revision, 150, registers);
    words.iter().flat_map(|w: &u32| w.to_le_bytes()).collect()
}

#[test]
fn every_chip_is_shown() {
    assert!(CHIPS.iter().all(|c| device_suffix(c.family).is_some()));
    assert_eq!(
        device_suffix("gfx1151").as_deref(),
        Some("(RADV STRIX_HALO)")
    );
    assert_eq!(device_suffix("navi23").as_deref(), Some("(RADV NAVI23)"));
    assert_eq!(device_suffix("rv770"), None);
}

#[test]
fn only_the_revision_and_the_registers_are_replaced() {
    let mut found = shim(0x11, 1024);
    assert!(HALO.write(&mut found));
    assert_eq!(found, shim(0xc1, 1536));
}

#[test]
fn no_card_or_two_are_refused() {
    let mut twice = [shim(0x11, 1024), shim(0x11, 1024)].concat();
    assert!(!HALO.write(&mut twice));
    // Another layout of the table: the registers would be written over something else.
    assert!(!HALO.write(&mut shim(0x11, 8)));
    assert!(!HALO.write(&mut shim(0x11, 1024)[..80]));
    assert!(!HALO.write(&mut []));
}

//! What the check refuses.

use std::collections::BTreeMap;

use super::*;
use crate::family::KernelReport;
use crate::isa::Mix;
use crate::predict::Work;
use crate::radv::Stats;

fn report(waves: u32, spills: u64, error: Option<&str>) -> Report {
    let kernel = KernelReport {
        label: "gemm BM=32".to_owned(),
        error: error.map(str::to_owned),
        stats: Stats {
            vgprs: 64,
            lds: 4608,
            spilled_vgprs: spills,
            scratch: spills * 64,
            ..Stats::default()
        },
        waves,
        groups: 2,
        group_waves: 4,
        work: Some(Work {
            round: Some(Mix::default()),
            once: Mix::default(),
            lanes: 32,
            round_cycles: 0.0,
            product_share: 0.0,
        }),
        launches: BTreeMap::new(),
        seconds: BTreeMap::new(),
    };
    Report {
        family: "navi31".to_owned(),
        device: String::new(),
        tier: "coop".to_owned(),
        kernels: vec![kernel],
        times: Vec::new(),
    }
}

#[test]
fn a_table_is_read_as_it_was_written() {
    let table = Table::of(&[report(8, 0, None)]);
    let read = Table::parse(&table.text("25.0.7")).unwrap();
    assert_eq!(read, table);
    assert_eq!(read.changes(&table), 0);
    assert_eq!(read.changes(&Table::default()), 1);
    assert!(Table::parse("a\nnot\ta line").is_err());
}

#[test]
fn spills_fewer_waves_and_errors_are_losses() {
    let table = Table::of(&[report(8, 0, None)]);
    assert!(table.losses(&[report(8, 0, None)]).is_empty());
    assert!(table.losses(&[report(9, 0, None)]).is_empty());
    for worse in [
        report(7, 0, None),
        report(8, 1, None),
        report(8, 0, Some("no")),
    ] {
        assert_eq!(table.losses(&[worse]).len(), 1);
    }
    // A kernel that is not in the table may have any waves, but no spills.
    let empty = Table::default();
    assert!(empty.losses(&[report(1, 0, None)]).is_empty());
    assert_eq!(empty.losses(&[report(1, 3, None)]).len(), 1);
    // What the table has of old is no loss.
    let spilling = Table::of(&[report(8, 3, None)]);
    assert!(spilling.losses(&[report(8, 3, None)]).is_empty());
}

//! Loops and classes of small listings in both writings.

use super::*;

const LLVM: &str = "BB0:
\tv_lshrrev_b32_e32 v1, 2, v0                                 ; 20020082
BB1:
\ts_waitcnt vmcnt(0) ; bf8c
\tds_write_b32 v90, v6                                        ; d81a0000
\tbuffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen ; e0
BB2:
\tds_read_b128 v[0:3], v9 ; d9
\ts_waitcnt lgkmcnt(0) ; bf8c
\tv_fma_f32 v1, v2, v3, v1 ; d1
\tv_mac_f32_e32 v1, v2, v3 ; 2c
\ts_cbranch_scc0 BB2 ; bf84
\ts_barrier ; bf8a
\ts_branch BB1 ; bf82
BB3:
\ts_endpgm ; bf81
";

#[test]
fn loops_and_their_classes_are_found() {
    let code = Code::parse(LLVM);
    assert_eq!(code.loops.len(), 2);
    assert_eq!(code.loops[1].parent, Some(0));
    assert_eq!(code.main_loop(), Some(0));
    assert!(code.is_innermost(1) && !code.is_innermost(0));
    let round = code.round(0, &|_| 8.0);
    assert_eq!((round.fma, round.lds, round.memory), (16.0, 9.0, 1.0));
    assert_eq!((round.lds_bytes, round.memory_bytes), (132.0, 16.0));
    assert_eq!((round.barriers, round.lds_stalls), (1.0, 8.0));
    assert_eq!((round.carried_stalls, round.memory_stalls), (1.0, 0.0));
    let once = code.outside(Some(0));
    assert_eq!((once.valu, once.wait, once.fma), (1.0, 1.0, 0.0));
}

#[test]
fn the_compilers_own_listing_is_read() {
    let text = "BB1
/* logical preds: BB0, BB4, / kind: uniform, loop-header, */
\t s1: %2:s[9],  s1: %12:scc = s_add_u32 %1:s[5], -8
\t v8: %4:v[96-103] = v_wmma_f32_16x16x16_f16 (latekill)%4:v[32-39], %4:v[20-27], %4:v[96-103]
\ts_waitcnt lgkmcnt(0)
\t v4: %7:v[0-3] = ds_read_b128 %8:v[4] offset:16
\ts_branch block:BB1
BB5
";
    let code = Code::parse(text);
    assert_eq!(code.loops.len(), 1);
    let round = code.round(0, &|_| 1.0);
    assert_eq!((round.matrix, round.scalar), (1.0, 2.0));
    assert_eq!((round.lds, round.lds_bytes), (1.0, 16.0));
}

#[test]
fn rdna_4_counts_what_a_wait_is_for_and_has_barriers_in_two_parts() {
    let text = "BB1:
\tbuffer_load_b128 v[28:31], v6, s[16:19], null offen         ; c4
\tds_load_b64 v[8:9], v110 offset:10240                       ; d9
\ts_wait_loadcnt_dscnt 0x0                                    ; bf
\ts_wait_alu 0xffe3                                           ; bf
\ts_barrier_signal -1                                         ; be
\ts_barrier_wait 0xffff                                       ; bf
\tv_wmma_f32_16x16x16_f16 v[72:79], v[20:23], v[12:15], v[72:79] ; cc
\ts_cbranch_scc0 BB1                                          ; bf
";
    let round = Code::parse(text).round(0, &|_| 1.0);
    assert_eq!((round.matrix, round.wait, round.barriers), (1.0, 4.0, 1.0));
    assert_eq!((round.lds_stalls, round.memory_stalls), (1.0, 1.0));
    assert_eq!((round.lds_bytes, round.memory_bytes), (8.0, 16.0));
}

/// The same loads, waited for at once, behind products, or not at all.
#[test]
fn waiting_for_memory_is_covered_by_what_runs_before() {
    let round =
        |body: &str| Code::parse(&format!("BB1:\n{body}\ts_branch BB1 ; bf\n")).round(0, &|_| 1.0);
    let load = "\tbuffer_load_b128 v[0:3], v6, s[16:19], 0 offen ; e0\n";
    let wmma = "\tv_wmma_f32_16x16x16_f16 v[8:15], v[20:23], v[12:15], v[8:15] ; cc\n";
    let mov = "\tv_mov_b32 v1, v2 ; 7e\n";
    for wait in [
        "\ts_waitcnt vmcnt(1) ; bf\n",
        "\ts_wait_loadcnt 0x1 ; bf\n",
        "\ts_wait_loadcnt_dscnt 0x102 ; bf\n",
    ] {
        let stalls = |body: &str| {
            let mix = round(body);
            (mix.memory_stalls, mix.carried_stalls)
        };
        let late = round(&[load, load, wmma, mov, wait].concat());
        let covering = (late.covering_matrix, late.covering_vector);
        assert_eq!((late.memory_stalls, covering), (1.0, (1.0, 1.0)), "{wait}");
        // One load may stay under way, and there is but one.
        assert_eq!(stalls(&[load, wmma, wait].concat()), (0.0, 0.0));
        // Waited for in the next round.
        assert_eq!(stalls(&[wait, load, wmma].concat()), (0.0, 1.0));
    }
}

#[test]
fn copies_that_llvm_does_not_know_are_counted() {
    let text = "BB1:
(invalid instruction)                                        ; d59c008e
(invalid instruction)                                        ; 00000126
(invalid instruction)                                        ; 7fa8cd58
\ts_branch BB1 ; bf
";
    let round = Code::parse(text).round(0, &|_| 1.0);
    assert_eq!((round.valu, round.scalar), (2.0, 1.0));
}

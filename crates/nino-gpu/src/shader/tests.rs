//! The preprocessor, and that every kernel of tiers this machine may lack is at least valid WGSL
//! that becomes SPIR-V.

use super::{KernelKey, Vars, assemble, expr};

#[test]
fn expressions() {
    let vars = Vars::from([("A".to_owned(), 5), ("B".to_owned(), 2)]);
    let cases = [
        ("A+B*3", 11),
        ("(A+B)*3", 21),
        ("A/B%2", 0),
        ("A>B && !C", 1),
        ("A - B - 1", 2),
    ];
    for (text, value) in cases {
        assert_eq!(expr::eval(text, &vars), Ok(value), "{text}");
    }
    for text in ["1/0", "A +", "(A", "A ~ B", "12x"] {
        assert!(expr::eval(text, &vars).is_err(), "{text}");
    }
}

#[test]
fn directives() {
    let vars = &mut Vars::from([("N".to_owned(), 2)]);
    let mut out = super::Expansion {
        text: String::new(),
        n_bindings: 0,
        immediates: true,
    };
    let text = "#for i 0 N\n#if i == 1\nv${i*10}\n#elif i == 0\nzero\n#endif\n#endfor\n#define M N+1\n${M}";
    let lines: Vec<&str> = text.lines().collect();
    out.expand(&lines, vars).unwrap();
    assert_eq!(out.text, "zero\nv10\n3\n");
    for bad in ["#if 1", "#for i 0", "#nothing", "${1", "#include none"] {
        assert!(out.expand(&[bad], vars).is_err(), "{bad}");
    }
}

fn coop(file: &'static str) -> KernelKey {
    KernelKey::new(file)
        .with("COOP", 1)
        .with("TS", 16)
        .with("SG", 32)
        .with("XT", 1)
        .with("OT", 1)
        .with("VO", 1)
}

fn gemm_keys() -> Vec<KernelKey> {
    let around = |key: KernelKey, wt: i64, pro: i64| {
        key.with("WT", wt)
            .with("BIAS", 1)
            .with("RES", 1)
            .with("RT", 1)
            .with("ACT", 1)
            .with("PRO", pro)
            .with("PRO_W", pro)
            .with("PRO_B", pro)
            .with("P4", pro)
    };
    let rows = coop("gemm_coop")
        .with("BM", 128)
        .with("BN", 128)
        .with("BK", 32)
        .with("WM", 64)
        .with("WN", 32)
        .with("PAD", 2);
    let taps = |key: KernelKey| {
        ["KT", "KH", "KW", "ST", "SH", "SW", "DT", "DH", "DW"]
            .iter()
            .fold(key, |k, n| k.with(n, 1))
    };
    let conv3 = coop("conv3_coop")
        .with("CONV", 2)
        .with("TY", 16)
        .with("TX", 16)
        .with("BN", 128)
        .with("BK", 16)
        .with("WM", 64)
        .with("WN", 64)
        .with("TPS", 3)
        .with("NE", 1)
        .with("CE", 1);
    let mut keys = Vec::new();
    for (wt, pro) in [
        (1, 0),
        (1, 1),
        (0, 0),
        (3, 0),
        (10, 1),
        (14, 0),
        (22, 0),
        (24, 0),
        (26, 0),
    ] {
        keys.push(around(rows.clone(), wt, pro).with("NE", 1).with("KE", 1));
        keys.push(around(taps(rows.clone()).with("CONV", 1), wt, pro));
        keys.push(around(conv3.clone(), wt, pro).with("WPACK", wt == 1));
        keys.push(around(rows.clone(), wt, pro));
        let narrow = around(conv3.clone(), wt, pro).with("NARROW", 1);
        keys.push(narrow.with("BN", 16).with("WN", 16).with("VO", 0));
    }
    let brain = coop("gemm_coop").with("OT", 2).with("RES", 1).with("RT", 2);
    let brain = [1, 2].map(|halves| brain.clone().with("WT", 1).with("HALVES", halves));
    let tile = rows
        .consts
        .iter()
        .filter(|(name, _)| !["OT", "XT"].contains(name));
    for key in brain {
        keys.push(tile.clone().fold(key, |key, (name, v)| key.with(name, *v)));
    }
    keys
}

#[test]
fn cooperative_kernels_become_spirv() {
    let mut keys = gemm_keys();
    keys.push(coop("peak").with("SH", 8));
    let all = ["half_peak", "half_all"].map(KernelKey::new);
    keys.extend(all.map(|key| key.with("PARTS", 256).with("EACH", 4).with("XT", 2)));
    for stored in [0, 1, 2, 3, 10, 22, 24, 29] {
        keys.push(
            KernelKey::new("half_rows")
                .with("LANES", 128)
                .with("WT", stored),
        );
    }
    for frames in [1, 3] {
        let winograd = coop("conv3_winograd_coop").with("CONV", 2).with("WT", 1);
        let winograd = winograd.with("PX", 8).with("XW", 2).with("UP", 2);
        keys.push(winograd.with("KT", frames).with("OT", 1).with("VO", 1));
    }
    for (hdp, mask) in [(128, 0), (48, 1)] {
        let key = coop("attention_coop")
            .with("BQ", 64)
            .with("BKV", 32)
            .with("WQ", 16);
        let key = key.with("HDP", hdp).with("MASK", mask).with("MT", 1);
        keys.extend([key.clone().with("OT", 2).with("HALVES", 320), key]);
    }
    let wide = coop("attention_wide")
        .with("WIDE", 1)
        .with("BQ", 32)
        .with("BKV", 32)
        .with("NW", 8);
    keys.push(wide.clone().with("HD", 512));
    keys.push(wide.with("HD", 256).with("SG", 64).with("MASK", 1));
    for key in keys {
        for immediates in [true, false] {
            let text = assemble(&key, immediates).unwrap().text;
            let module = naga::front::wgsl::parse_str(&text)
                .unwrap_or_else(|e| panic!("{}: {}", key.label(), e.emit_to_string(&text)));
            let flags = naga::valid::ValidationFlags::all();
            let info = naga::valid::Validator::new(flags, naga::valid::Capabilities::all())
                .validate(&module)
                .unwrap_or_else(|e| panic!("{}: {}", key.label(), e.emit_to_string(&text)));
            let options = naga::back::spv::Options {
                lang_version: (1, 4),
                ..Default::default()
            };
            naga::back::spv::write_vec(&module, &info, &options, None)
                .unwrap_or_else(|e| panic!("{}: {e}", key.label()));
        }
    }
}

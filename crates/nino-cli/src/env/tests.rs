use super::{Env, listed_of};

fn pairs(list: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    let owned: Vec<_> = list
        .iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
        .collect();
    owned.into_iter()
}

#[test]
fn lists_what_matters_and_hides_secrets() {
    let found = listed_of(pairs(&[
        ("PATH", "/bin"),
        ("RADV_DEBUG", "nodcc"),
        ("HF_TOKEN", "hf_abc"),
        ("MIOPEN_FIND_MODE", "2"),
        ("NINO_BUGDET", "4GiB"),
        ("NINO_BUDGET", "4GiB"),
    ]));
    let names: Vec<&str> = found.iter().map(|v| v.name.as_str()).collect();
    let wanted = [
        "HF_TOKEN",
        "MIOPEN_FIND_MODE",
        "NINO_BUDGET",
        "NINO_BUGDET",
        "RADV_DEBUG",
    ];
    assert_eq!(names, wanted);
    assert_eq!(found[0].value, "(set)");
    let unknown: Vec<bool> = found.iter().map(|v| v.unknown).collect();
    assert_eq!(unknown, [false, false, false, true, false]);
}

#[test]
fn empty_means_not_set_and_the_cache_has_a_place() {
    let env = Env::from(|name| match name {
        "NINO_LOG" => Some(String::new()),
        "HOME" => Some("home".to_owned()),
        _ => None,
    })
    .unwrap();
    assert_eq!(env.log, None);
    assert!(env.cache_dir.unwrap().ends_with(".cache/nino"));
    let env = Env::from(|name| (name == "NINO_CACHE").then(|| "here".to_owned())).unwrap();
    assert_eq!(env.cache_dir.unwrap().to_str(), Some("here"));
}

#[test]
fn ptx_is_there_unless_0() {
    let said = |value: &str| {
        let value = value.to_owned();
        Env::from(|name| (name == "NINO_PTX").then(|| value.clone()))
    };
    assert!(said("0").unwrap().no_ptx);
    assert!(!said("1").unwrap().no_ptx);
    assert!(!Env::from(|_| None).unwrap().no_ptx);
}

#[test]
fn products_of_bytes_are_left_to_the_gpu_unless_said() {
    for (said, expected) in [
        (None, None),
        (Some("0"), Some(false)),
        (Some("1"), Some(true)),
    ] {
        let said = said.map(str::to_owned);
        let env = Env::from(|name| said.clone().filter(|_| name == "NINO_GPU_INT8"));
        assert_eq!(env.unwrap().gpu_int8, expected);
    }
}

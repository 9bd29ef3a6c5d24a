//! Flags out of pictures and command lines.

use super::*;
use std::path::PathBuf;

fn line(args: &[&str]) -> Vec<OsString> {
    ["nino", "generate"]
        .iter()
        .chain(args)
        .map(OsString::from)
        .collect()
}

#[test]
fn every_flag_is_either_repeated_or_known_not_to_be() {
    const NOT: &[&str] = &[
        "count",
        "output",
        "save-latent",
        "from",
        "preview",
        "preview-every",
        "preview-vae",
        "no-preview",
        "device",
        "gpu-tier",
        "text-device",
        "budget",
        "profile",
        "threads",
        "json",
        "verbose",
        "quiet",
        "json-progress",
        "prompts",
        "force",
        "no-metadata",
        "quality",
        "help",
    ];
    for arg in flags::GENERATE.command().get_arguments() {
        let name = flags::name(arg);
        assert!(
            flags::REPEATED.contains(&name) != NOT.contains(&name),
            "--{name}: does --from repeat it?"
        );
    }
}

#[test]
fn given_flags_win_over_recorded_ones() {
    let recorded = Flags::from_json(
        &flags::GENERATE,
        r#"{"flags":{"prompt":["--a - b"],"seed":["7"],"steps":["4"],"lora":["x:1","y:0.5"],"output":["/etc/passwd"]}}"#,
    )
    .unwrap();
    assert_eq!(recorded.notes.len(), 1, "{:?}", recorded.notes);
    let given = line(&["--from", "a.png", "--seed", "8", "-o", "b.png"]);
    let merged = recorded.clone().below(&Flags::given(&given).unwrap());
    let Verb::Generate(args) = args::parse(&merged.line(&given)).unwrap().verb else {
        panic!()
    };
    assert_eq!(args.prompt(), "--a - b");
    assert_eq!(args.sampling.seed, Some(args::SeedArg(Some(8))));
    assert_eq!(args.sampling.steps, Some(4));
    assert_eq!(args.model.lora.len(), 2);
    assert_eq!(args.output, Some(PathBuf::from("b.png")));
    let given = line(&["another", "--from", "a.png", "--lora", "z"]);
    let merged = recorded.below(&Flags::given(&given).unwrap());
    let Verb::Generate(args) = args::parse(&merged.line(&given)).unwrap().verb else {
        panic!()
    };
    assert_eq!(args.prompt(), "another");
    assert_eq!(args.model.lora.len(), 1);
}

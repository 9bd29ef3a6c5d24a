//! Help that reads well: every verb's at 80 columns, and what is made from the same grammar.

use crate::shell::{Folder, command, nino, nino_in};

/// The words of every command, as the help of those above it lists them.
fn verbs() -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut next = 0;
    while let Some(verb) = all.get(next).cloned() {
        next += 1;
        let words: Vec<&str> = verb.iter().map(String::as_str).collect();
        let text = help(&words, "100");
        let commands = text.lines().skip_while(|l| *l != "Commands:").skip(1);
        let commands = commands.take_while(|l| !l.is_empty());
        // What is indented more belongs to the line above.
        let commands = commands.filter(|l| !l.starts_with("   "));
        let names = commands.filter_map(|l| l.split_whitespace().next());
        let below = names.filter(|name| *name != "help");
        let below: Vec<Vec<String>> = below
            .map(|name| [&verb[..], &[name.to_owned()]].concat())
            .collect();
        all.extend(below);
    }
    assert!(all.len() > 15, "{all:?}");
    all
}

fn each_help(columns: &str, check: impl Fn(&[String], &str)) {
    for verb in verbs() {
        let words: Vec<&str> = verb.iter().map(String::as_str).collect();
        check(&verb, &help(&words, columns));
    }
}

fn help(verb: &[&str], columns: &str) -> String {
    let mut command = command(verb);
    let output = command.arg("--help").env("COLUMNS", columns).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{verb:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn no_line_of_help_is_wider_than_the_terminal() {
    for (columns, most) in [("80", 80), ("100", 100), ("200", 100)] {
        each_help(columns, |verb, text| {
            for line in text.lines() {
                let wide = line.chars().count();
                assert!(
                    wide <= most,
                    "{verb:?} at {columns}: {wide} columns: {line}"
                );
            }
        });
    }
}

/// Text that is wrapped before clap wraps it has lines of one or two words in the middle.
#[test]
fn paragraphs_are_wrapped_once() {
    each_help("100", |verb, text| {
        let after = text.split_once("Examples:").map_or("", |(_, after)| after);
        let lines: Vec<&str> = after.lines().collect();
        for pair in lines.windows(2) {
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with([' ', '`']);
            let short = is_prose(pair[0]) && is_prose(pair[1]) && pair[0].len() < 60;
            assert!(!short, "{verb:?}: {pair:?}");
        }
    });
}

#[test]
fn the_prompt_has_no_default_in_the_help() {
    let text = help(&["generate"], "100");
    assert!(!text.contains("[default: \"\"]"), "{text}");
    assert!(text.contains("With --prediction: noise schedule"), "{text}");
}

#[test]
fn completions_and_manual_pages_come_from_the_grammar() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = nino(&["completions", shell]);
        assert_eq!(said.code, 0, "{shell}: {}", said.err);
        assert!(
            said.out.contains("generate") && said.out.contains("sampler"),
            "{shell}"
        );
    }
    let said = nino(&["completions", "tcsh"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("bash") && said.err.contains("zsh"),
        "{}",
        said.err
    );
    let page = nino(&["man"]);
    assert!(page.out.contains(".TH nino 1"), "{}", page.out);
    let dir = Folder::new();
    let said = nino(&["man", &dir.at("man1")]);
    assert_eq!(said.code, 0, "{}", said.err);
    for name in ["nino.1", "nino-generate.1", "nino-plan-decode.1"] {
        let text = std::fs::read_to_string(dir.at(&format!("man1/{name}"))).unwrap();
        assert!(text.contains(".TH"), "{name}");
    }
}

#[test]
fn samplers_are_listed() {
    let said = nino(&["samplers"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for part in [
        "dpmpp_2m",
        "DPM++ 2M",
        "karras",
        "uni_pc_bh2",
        "linear_quadratic",
    ] {
        assert!(
            said.out.contains(part),
            "{part:?} is missing from:\n{}",
            said.out
        );
    }
    assert!(
        said.out.lines().all(|l| l.chars().count() <= 100),
        "{}",
        said.out
    );
    let json = nino(&["samplers", "--json"]).json();
    assert_eq!(json["samplers"].as_array().unwrap().len(), 45);
    assert_eq!(json["schedulers"].as_array().unwrap().len(), 9);
    assert!(json["notes"].is_array() && json["hints"].is_array());
}

/// Flags as they are written in a text, without their dashes.
fn flags(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| c.is_whitespace() || "`,;.()=<>".contains(c));
    words.filter_map(|word| word.strip_prefix("--")).collect()
}

#[test]
fn hints_name_flags_that_the_help_of_the_verb_has() {
    let dir = Folder::new();
    let cpu = ["--device", "cpu", "--budget", "1MiB"];
    let small = ["--size", "64x64", "--steps", "1", "--device", "cpu"];
    let made = ["generate", "x", "-o", "a.png", "--save-latent", "a.latent"];
    let said = nino_in(dir.path(), &[&made[..], &small].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let emoji = ["--vae", "nino-emoji"];
    let goldens = concat!(env!("CARGO_MANIFEST_DIR"), "/../../goldens");
    let taesd = format!("{goldens}/models/taesd.safetensors");
    let taesd = ["--vae", taesd.as_str()];
    let cases: [(&[&str], Vec<&str>); 8] = [
        (&["generate"], [&["x"][..], &cpu].concat()),
        (
            &["decode"],
            [&["a.latent", "-o", "b.png"][..], &emoji, &cpu].concat(),
        ),
        (
            &["encode"],
            [&["a.png", "-o", "b.latent"][..], &taesd, &cpu].concat(),
        ),
        (&["video"], [&["x"][..], &cpu].concat()),
        (&["plan", "generate"], cpu.to_vec()),
        (
            &["plan", "decode"],
            [&["a.latent"][..], &emoji, &cpu].concat(),
        ),
        (&["generate"], vec!["x", "--model", "nothing-here"]),
        (&["generate"], vec!["x", "-o", "a.png", "--image", "a.png"]),
    ];
    for (verb, args) in cases {
        let said = nino_in(dir.path(), &[verb, &args].concat());
        assert_ne!(said.code, 0, "{verb:?} {args:?}");
        let hints: Vec<&str> = said
            .err
            .lines()
            .filter_map(|l| l.strip_prefix("hint: "))
            .collect();
        assert!(!hints.is_empty(), "{verb:?} {args:?}: {}", said.err);
        let help = help(verb, "100");
        let known = flags(&help);
        for flag in hints.iter().flat_map(|hint| flags(hint)) {
            assert!(known.contains(&flag), "{verb:?}: --{flag}: {}", said.err);
        }
    }
}

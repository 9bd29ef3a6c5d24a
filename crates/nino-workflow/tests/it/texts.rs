//! Nodes of texts give what ComfyUI's give: `goldens/nodes/texts.py`.

use crate::host::{Folders, executor, graph, run};
use nino_workflow::{Limits, Made, Watch, check};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What the outputs of one node are, in Python's words.
fn given(class: &str, inputs: &Value) -> Vec<String> {
    let n = nino_workflow::nodes::find(class).unwrap().outputs.len();
    let mut nodes = json!({ "x": { "class_type": class, "inputs": inputs } });
    for i in 0..n {
        let source = json!({ "class_type": "PreviewAny", "inputs": { "source": ["x", i] } });
        nodes[i.to_string()] = source;
    }
    let mut host = Folders::default();
    run(&mut executor(), &graph(nodes), &mut host);
    let text = |made: &Made| match made {
        Made::Texts(texts) => texts.join(""),
        _ => panic!("{class} gave no text"),
    };
    host.made.iter().map(|(_, made)| text(made)).collect()
}

#[test]
fn texts_are_comfyuis() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/nodes/texts.json");
    let cases: Vec<(String, Value, Vec<String>)> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for (class, inputs, wanted) in &cases {
        let found = given(class, inputs);
        if found != *wanted {
            wrong.push(format!("{class} {inputs}: {found:?} for {wanted:?}"));
        }
    }
    assert!(cases.len() > 300, "{}", cases.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a node says when it fails.
fn failed(class: &str, inputs: &Value) -> String {
    let nodes = json!({
        "1": { "class_type": class, "inputs": inputs },
        "2": { "class_type": "PreviewAny", "inputs": { "source": ["1", 0] } },
    });
    let mut host = Folders::default();
    let checked = check(&graph(nodes), &host, &Limits::default());
    let checked = checked.unwrap_or_else(|error| panic!("{error}"));
    let cancel = AtomicBool::new(false);
    let mut watch = Watch {
        cancel: &cancel,
        on_event: &mut |_| {},
    };
    let ran = executor().run(&checked, &mut host, &mut watch);
    ran.unwrap_err().to_string()
}

#[test]
fn patterns_and_texts_have_limits() {
    let search = |string: &str, pattern: &str| {
        json!({ "string": string, "regex_pattern": pattern, "case_insensitive": false,
                "multiline": false, "dotall": false })
    };
    // Python's matcher would try for longer than anyone waits.
    let endless = format!("d{}c", "a".repeat(60));
    let told = failed("RegexMatch", &search(&endless, r"(a|aa)+(?=c)\1d"));
    assert!(told.contains("more than 250000 times"), "{told}");
    let told = failed("RegexMatch", &search("a", &"a".repeat(10_000)));
    assert!(
        told.contains("has 10000 bytes; the limit is 8192"),
        "{told}"
    );
    let told = failed("RegexMatch", &search("a", "(?:(?:a{999}){999}){999}"));
    assert!(told.contains("the pattern has too many repeats"), "{told}");
    // A text that grows by what replaces its letters.
    let long = json!({ "string": "a".repeat(1000), "find": "a", "replace": "b".repeat(1000) });
    let told = failed("StringReplace", &long);
    assert!(
        told.contains("1000000 bytes, 102400 are the most"),
        "{told}"
    );
    let mut long = search(&"a".repeat(1000), "a");
    long["replace"] = json!("b".repeat(1000));
    let told = failed("RegexReplace", &long);
    assert!(told.contains("more than 102400 bytes"), "{told}");
    let told = failed(
        "RegexReplace",
        &json!({
        "string": "a", "regex_pattern": "(", "replace": "" }),
    );
    assert!(told.contains("the pattern is invalid"), "{told}");
}

#[test]
fn texts_and_truths_become_numbers() {
    let converted = |class: &str, value: Value| {
        let nodes = json!({
            "1": { "class_type": class, "inputs": { "value": value } },
            "2": { "class_type": "ComfyNumberConvert", "inputs": { "value": ["1", 0] } },
            "3": { "class_type": "PreviewAny", "inputs": { "source": ["2", 0] } },
            "4": { "class_type": "PreviewAny", "inputs": { "source": ["2", 1] } },
        });
        let mut host = Folders::default();
        run(&mut executor(), &graph(nodes), &mut host);
        let texts = host.made.iter().map(|(_, made)| match made {
            Made::Texts(texts) => texts.join(""),
            _ => panic!("no text"),
        });
        texts.collect::<Vec<_>>()
    };
    assert_eq!(converted("PrimitiveString", json!(" 1.75 ")), ["1.75", "1"]);
    assert_eq!(converted("PrimitiveString", json!("-20")), ["-20.0", "-20"]);
    assert_eq!(
        converted("PrimitiveString", json!("1e3")),
        ["1000.0", "1000"]
    );
    assert_eq!(converted("PrimitiveFloat", json!(-2.5)), ["-2.5", "-2"]);
    assert_eq!(converted("PrimitiveInt", json!(7)), ["7.0", "7"]);
    assert_eq!(converted("PrimitiveBoolean", json!(true)), ["1.0", "1"]);
}

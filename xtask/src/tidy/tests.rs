use super::{Finding, check};
use crate::tree::{self, File};

fn file(path: &str, text: &str) -> File {
    File {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

fn findings(path: &str, text: &str) -> Vec<String> {
    let folder = path.strip_suffix("/Cargo.toml").unwrap_or("docs");
    check(&[file(path, text), file(&format!("{folder}/README.md"), "")])
        .into_iter()
        .map(|f| format!("{}: {}", f.line, f.what))
        .collect()
}

#[test]
fn the_project_is_tidy() {
    let files = tree::files(&tree::root()).unwrap();
    assert!(
        files.iter().any(|f| f.path == "xtask/src/tidy.rs"),
        "looked in the wrong folder"
    );
    let errors: Vec<Finding> = check(&files).into_iter().filter(|f| !f.warning).collect();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn each_rule_sees_its_breach() {
    let src = "crates/nino-graph/src/a.rs";
    let cases = [
        (src, "fn a() {}\n", "1: does not begin with `//!`"),
        (
            src,
            "//! A.\nfn a() { b().unwrap(); }\n",
            "2: unwrap() outside tests",
        ),
        (
            src,
            "//! A.\n#[cfg(feature = \"x\")]\n",
            "2: conditional compilation by feature",
        ),
        (
            src,
            "//! A.\nfn a() { println!(); }\n",
            "2: println! outside nino-cli, xtask and fuzz",
        ),
        (
            src,
            "//! A.\n// TODO: later\n",
            "2: TODO without an issue number",
        ),
        (
            src,
            "//! A.\nconst P: &str = \"/home/ann/x\";\n",
            "2: names the path /home/… of one machine",
        ),
        (
            "crates/nino-gpu/shaders/a.wgsl",
            "fn main() {}\n",
            "1: does not begin with `//`",
        ),
        (
            "docs/a.md",
            "put it in /tmp/x\n",
            "1: names the path /tmp/… of one machine",
        ),
        (
            "crates/nino-cpu/src/utils.rs",
            "//! A.\n",
            "0: a file called utils.rs says nothing",
        ),
    ];
    for (path, text, wanted) in cases {
        let found = findings(path, text);
        assert!(
            found.len() == 1 && found[0].starts_with(wanted),
            "{text:?} gave {found:?}"
        );
    }
}

#[test]
fn what_is_allowed_passes() {
    let src = "crates/nino-graph/src/a.rs";
    let cases = [
        (src, "//! A.\n// TODO(#12): later\n"),
        (src, "//! A.\n// a comment may name .unwrap()\n"),
        (
            src,
            "//! A.\n#[cfg(test)]\nmod tests {\n    fn a() { b().unwrap(); }\n}\n",
        ),
        (
            src,
            "//! A.\nfn a() { b.unwrap_or(1); eprintln_like!(); }\n",
        ),
        (
            "crates/nino-graph/src/a/tests.rs",
            "fn a() { b().unwrap(); }\n",
        ),
        (
            "crates/nino-cli/src/a.rs",
            "//! A.\nfn a() { println!(); }\n",
        ),
        (
            "docs/a.md",
            "see https://example.org/home/page and dist/tmp/file\n",
        ),
    ];
    for (path, text) in cases {
        let found = findings(path, text);
        assert!(found.is_empty(), "{text:?} gave {found:?}");
    }
}

#[test]
fn prose_has_at_most_100_columns() {
    let long = "word ".repeat(21);
    let cases = [
        (
            "crates/nino-cpu/src/a.rs",
            format!("//! A.\n    // {long}\n"),
            2,
        ),
        ("crates/nino-cpu/src/a.rs", format!("//! {long}\n"), 1),
        ("crates/nino-cpu/README.md", format!("# A\n\n{long}\n"), 3),
        (".ci/run", format!("# {long}\n"), 1),
    ];
    for (path, text, line) in &cases {
        let found = check(&[file(path, text)]);
        let lines: Vec<usize> = found.iter().map(|f| f.line).collect();
        assert_eq!(lines, [*line], "{path}: {found:?}");
    }
    let name = "first_stage_model.decoder.mid.attn_1.proj_out.weight";
    let fine = [
        (
            "crates/nino-cpu/src/a.rs",
            format!("//! A.\nconst A: &str = \"{long}\";\n"),
        ),
        (
            "crates/nino-cpu/src/a.rs",
            format!("//! A.\n// {}\n", "word ".repeat(19)),
        ),
        (
            "crates/nino-cpu/src/a.rs",
            format!("//! A.\n// {long}{name}\n"),
        ),
        (
            "crates/nino-cpu/README.md",
            format!("| {long} |\n```text\n{long}\n```\n"),
        ),
        (
            "crates/nino-cpu/README.md",
            format!("{long} [a](https://example.org)\n"),
        ),
    ];
    for (path, text) in &fine {
        let found = check(&[file(path, text)]);
        assert!(found.is_empty(), "{path}: {found:?}");
    }
}

#[test]
fn length_warns_then_fails_and_tests_are_free() {
    let long = |n: usize| format!("//! A.\n{}", "const A: u8 = 0;\n".repeat(n));
    let kinds = |path: &str, n| -> Vec<bool> {
        check(&[file(path, &long(n))])
            .iter()
            .map(|f| f.warning)
            .collect()
    };
    assert_eq!(kinds("crates/nino-cpu/src/a.rs", 400), []);
    assert_eq!(kinds("crates/nino-cpu/src/a.rs", 600), [true]);
    assert_eq!(kinds("crates/nino-cpu/src/a.rs", 900), [false]);
    assert_eq!(kinds("crates/nino-cpu/src/a/tests.rs", 900), []);
    assert_eq!(kinds("crates/nino-gpu/shaders/a.wgsl", 900), [false]);
}

#[test]
fn crate_edges_follow_the_map() {
    let check = |krate: &str, text: &str| findings(&format!("crates/{krate}/Cargo.toml"), text);
    let up = "[dependencies]\nnino-gpu.workspace = true\n";
    assert_eq!(
        check("nino-graph", up),
        ["2: nino-graph may not depend on nino-gpu"]
    );
    let table = "[dependencies.nino-cpu]\npath = \"../nino-cpu\"\n";
    assert_eq!(
        check("nino-graph", table),
        ["1: nino-graph may not depend on nino-cpu"]
    );
    let target = "[target.'cfg(unix)'.dependencies]\nnino-cpu = { path = \"x\" }\n";
    assert_eq!(
        check("nino-graph", target),
        ["2: nino-graph may not depend on nino-cpu"]
    );
    let outside = "[dependencies]\nwgpu = \"30\"\n";
    assert_eq!(
        check("nino-cpu", outside),
        ["2: only nino-gpu may depend on wgpu"]
    );
    let dev = "[dev-dependencies]\nnino-suite.workspace = true\n";
    assert_eq!(check("nino-graph", dev), [""; 0]);
    assert_eq!(
        check(
            "nino-graph",
            "[dependencies]\nnino-dtype.workspace = true\n"
        ),
        [""; 0]
    );
    assert_eq!(check("nino-new", ""), ["0: the map has no crate nino-new"]);
}

#[test]
fn an_op_needs_a_problem_and_a_crate_a_page() {
    let ops = file(
        "crates/nino-graph/src/ops.rs",
        "//! A.\n    $callback! {\n        Rope rope,\n        AvgPool avg_pool,\n    }\nuse a b,\n",
    );
    let problems = file(
        "crates/nino-suite/src/problems/embed.rs",
        "//! A.\nops: &[\"rope\"],\n",
    );
    let found = check(&[ops, problems]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].line, &*found[0].what),
        (4, "the op avg_pool has no problem in nino-suite")
    );
    let found = check(&[file("crates/nino-graph/Cargo.toml", "")]);
    assert_eq!(found[0].what, "the crate has no README.md");
}

/// The tables of promises name the tests that hold them, in their last column.
#[test]
fn tests_that_tables_name_are_there() {
    let files = tree::files(&tree::root()).unwrap();
    let is_test = |name: &str| {
        let mut code = files.iter().filter(|f| f.text.contains("#[test]"));
        code.any(|f| f.text.contains(&format!("fn {name}(")))
    };
    let is_name = |word: &&str| {
        word.contains('_') && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut seen = 0;
    for path in ["docs/reliability.md", "docs/command-line.md"] {
        let page = files.iter().find(|f| f.path == path);
        let page = page.unwrap_or_else(|| panic!("{path} is missing"));
        let rows = page.text.lines().filter(|line| line.starts_with("| "));
        for row in rows {
            let last = row.trim_end_matches(" |").rsplit(" | ").next();
            let words = last.unwrap_or_default().split('`').skip(1).step_by(2);
            for name in words.filter(is_name) {
                assert!(is_test(name), "{path}: there is no test {name}");
                seen += 1;
            }
        }
    }
    assert!(seen > 90, "{seen} names were found");
}

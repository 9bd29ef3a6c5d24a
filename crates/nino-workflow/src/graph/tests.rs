//! Graphs out of JSON, and back.

use super::*;

fn read(text: &str) -> Result<Graph, GraphError> {
    Graph::from_json(text, &Limits::default())
}

#[test]
fn links_values_and_titles_are_read_and_written() {
    let text = r#"{"10":{"class_type":"A","inputs":{"a":["2",1],"b":{"__value__":[1,2]},"c":[1],"d":0.5},
                   "_meta":{"title":"T"}},"2":{"class_type":"B","inputs":{}},"x":{"inputs":{}}}"#;
    let graph = read(text).unwrap();
    let ids: Vec<&str> = graph.iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["2", "10", "x"]);
    let node = graph.get("10").unwrap();
    assert_eq!(node.title.as_deref(), Some("T"));
    let link = node.link("a").unwrap();
    assert_eq!((&*link.node, link.slot), ("2", 1));
    assert_eq!(node.value("b"), Some(&json!([1, 2])));
    assert!(matches!(node.inputs["c"], Input::BadLink(_)));
    assert_eq!(graph.get("x").unwrap().class, None);
    assert_eq!(read(&graph.to_json().to_string()).unwrap(), graph);
    // Python writes NaN.
    let graph = read(r#"{"1":{"class_type":"A","inputs":{"a": NaN}}}"#).unwrap();
    assert_eq!(graph.get("1").unwrap().value("a"), Some(&Value::Null));
}

#[test]
fn what_is_no_graph_is_an_error_that_says_so() {
    let deep = format!("{{\"1\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for (text, part) in [
        ("", "not JSON"),
        ("[]", "a list"),
        ("7", "a number"),
        (r#"{"1":2}"#, "node 1"),
        (r#"{"1":{"class_type":3}}"#, "class_type"),
        (r#"{"1":{"class_type":"A","inputs":[]}}"#, "inputs"),
        (r#"{"nodes":[],"links":[]}"#, "Export (API)"),
        (&deep, "recursion limit"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    let many: Map<String, Value> = (0..20)
        .map(|i| (i.to_string(), json!({ "class_type": "A" })))
        .collect();
    let many = Value::Object(many).to_string();
    let few = Limits {
        nodes: 10,
        ..Limits::default()
    };
    let error = Graph::from_json(&many, &few).unwrap_err().to_string();
    assert!(error.contains("20 nodes; the limit is 10"), "{error}");
    let short = Limits {
        bytes: 10,
        ..Limits::default()
    };
    // Whatever it comes from.
    let value: Value = serde_json::from_str(&many).unwrap();
    assert_eq!(json_bytes(&value), many.len());
    let error = Graph::from_value(value, &short).unwrap_err().to_string();
    assert!(error.contains("the limit is 10"), "{error}");
    let error = Graph::from_json(&many, &short).unwrap_err();
    assert!(
        matches!(error, GraphError::Bytes { most: 10, .. }),
        "{error}"
    );
}

#[test]
fn nodes_are_added_and_links_moved() {
    let mut graph = read(
        r#"{"1":{"class_type":"A","inputs":{}},"3":{"class_type":"B","inputs":{"a":["1",0]}}}"#,
    )
    .unwrap();
    let added = graph.add(Node::new("C").linked("a", "1", 0).with("b", 2));
    assert!(graph.get(&added).is_some() && added != "1" && added != "3");
    let at = |node: &str| Link {
        node: node.to_owned(),
        slot: 0,
    };
    graph.relink(&at("1"), &at(&added), &added);
    assert_eq!(graph.get("3").unwrap().link("a"), Some(&at(&added)));
    assert_eq!(graph.get(&added).unwrap().link("a"), Some(&at("1")));
}

#[test]
fn a_larger_machine_takes_larger_results() {
    let values = |gib: u64| Limits::for_memory(Some(gib << 30)).values;
    let clip = 1280 * 704 * 121 * 3;
    assert!(values(4) == Limits::default().values && values(8) > clip);
    assert_eq!(Limits::for_memory(None), Limits::default());
}

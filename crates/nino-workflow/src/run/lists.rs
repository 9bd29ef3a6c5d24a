//! Nodes that are given lists: each is run once for every entry, and what it gives is a list again.

use crate::value::Value;
use serde_json::Value as Json;
use std::sync::Arc;

type Inputs = Vec<(&'static str, Value)>;

/// The inputs of each run of a node: one, or one for every entry of its longest list. A shorter
/// list goes on with its last entry.
pub(super) fn each(inputs: Inputs) -> Vec<Inputs> {
    let lengths = inputs.iter().filter_map(|(_, value)| match value {
        Value::List(all) => Some(all.len()),
        _ => None,
    });
    let Some(n) = lengths.max() else {
        return vec![inputs];
    };
    let entry = |value: &Value, i: usize| match value {
        Value::List(all) => all.get(i).or(all.last()).cloned(),
        value => Some(value.clone()),
    };
    let run = |i: usize| {
        let given = inputs.iter();
        let given = given.filter_map(|(name, value)| Some((*name, entry(value, i)?)));
        given.collect()
    };
    (0..n).map(run).collect()
}

/// The outputs of several runs as one: lists, unless there was one run.
pub(super) fn joined(mut runs: Vec<Vec<Value>>, outputs: usize) -> Vec<Value> {
    if runs.len() == 1 {
        return runs.swap_remove(0).into_iter().map(plain).collect();
    }
    let slot = |slot: usize| {
        let values = runs.iter().filter_map(|run| run.get(slot)).cloned();
        let flat = values.flat_map(|value| match value {
            Value::List(all) => all.to_vec(),
            value => vec![value],
        });
        plain(Value::List(Arc::new(flat.collect())))
    };
    (0..outputs).map(slot).collect()
}

/// A list of one is its entry.
fn plain(value: Value) -> Value {
    match value {
        Value::List(all) if all.len() == 1 => all[0].clone(),
        value => value,
    }
}

/// What a host called the results of several runs: lists go on, all else is the last.
pub(super) fn told(before: Option<Json>, more: Option<Json>) -> Option<Json> {
    let (Some(Json::Object(mut all)), Some(Json::Object(more))) = (before.clone(), more.clone())
    else {
        return more.or(before);
    };
    for (key, value) in more {
        match (all.get_mut(&key), value) {
            (Some(Json::Array(list)), Json::Array(more)) => list.extend(more),
            (_, value) => {
                all.insert(key, value);
            }
        }
    }
    Some(Json::Object(all))
}

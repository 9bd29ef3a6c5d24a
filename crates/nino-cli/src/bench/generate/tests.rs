//! Every row can be recorded with the weights it names.

use super::cases::{Parts, made_up};
use nino_dtype::DType;

#[test]
fn every_row_is_a_graph() {
    let mut wrong = Vec::new();
    for case in made_up() {
        let networks = match case.parts {
            Parts::One(network) => vec![*network],
            Parts::Picture { text, unet, vae } => text.into_iter().chain([*unet, *vae]).collect(),
        };
        let recorded = networks.iter().map(|n| n.record(DType::F32));
        wrong.extend(recorded.filter_map(|r| Some(format!("{}: {}", case.name, r.err()?))));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

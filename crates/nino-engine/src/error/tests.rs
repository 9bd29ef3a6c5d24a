//! What is said beside an error.

use super::EngineError;
use nino_graph::{ExecError, PlanError};

#[test]
fn what_a_gpu_cannot_do_at_once_has_another_way() {
    let device = "a card".to_owned();
    let unsupported = ExecError::Unsupported {
        op: "conv".to_owned(),
        device,
        why: "4294967296 values".to_owned(),
    };
    let too_large = PlanError::BindingTooLarge {
        op: "attention".to_owned(),
        bytes: 2,
        limit: 1,
    };
    for error in [EngineError::Exec(unsupported), EngineError::Plan(too_large)] {
        let hint = error.hint().unwrap();
        assert!(
            hint.contains("--tile fast") && hint.contains("--device cpu"),
            "{hint}"
        );
    }
}

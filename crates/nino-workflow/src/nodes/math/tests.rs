//! Formulas have the values that Python gives them.

use super::expression::value;
use super::numbers::Number::{Bool, Float, Int};

#[test]
fn formulas_are_pythons() {
    let names = [("a", Int(7)), ("b", Float(2.5)), ("c", Bool(true))];
    for (formula, wanted) in [
        ("a + b", Float(9.5)),
        ("a // 2", Int(3)),
        ("-a // 2", Int(-4)),
        ("-7 % 3", Int(2)),
        ("7 / 2", Float(3.5)),
        ("-2 ** 2", Int(-4)),
        ("2 ** 3 ** 2", Int(512)),
        ("2 ** -1", Float(0.5)),
        ("round(2.5)", Int(2)),
        ("round(b * 10) / 10", Float(2.5)),
        ("round(1.255, 1)", Float(1.3)),
        ("floor(b) + ceil(b)", Int(5)),
        ("int(-2.7)", Int(-2)),
        ("min(a, b, 3)", Float(2.5)),
        ("max(values)", Int(7)),
        ("sum(values)", Float(10.5)),
        ("values[0] * values[-1]", Int(7)),
        ("a if c else b", Int(7)),
        ("a > 3 and b < 2", Bool(false)),
        ("not a or 4", Int(4)),
        ("1 < b <= 3", Bool(true)),
        ("(a - 1) * 4 + 1", Int(25)),
        ("sqrt(16) + abs(-3)", Float(7.0)),
        ("1e3 + 1_000", Float(2000.0)),
        ("6 & 3 | 8 ^ 1", Int(11)),
        ("1 << 4 >> 1", Int(8)),
        ("c + c", Int(2)),
        ("1 / (a - 7) + 1 if a > 7 else 0", Int(0)),
        ("a or 1 / 0", Int(7)),
        ("log(8, 2)", Float(8f64.ln() / 2f64.ln())),
    ] {
        assert_eq!(value(formula, &names), Ok(wanted), "{formula}");
    }
}

#[test]
fn what_is_no_formula_is_refused() {
    let deep = format!("{}1{}", "(".repeat(3000), ")".repeat(3000));
    let towers = "2 ** ".repeat(3000) + "2";
    let wrong = [
        "",
        "a +",
        "(1",
        "1 2",
        "x",
        "1 / 0",
        "5 % 0",
        "10 ** 5000",
        "2 ** 200",
        "pow(2)",
        "sqrt(-1)",
        "log(0)",
        "values",
        "values[3]",
        "__import__('os')",
        "a.b",
        "1 if 2",
        &deep,
        &towers,
        "1e999 ** 'x'",
        "min()",
        "a = 3",
        "1 << 500",
    ];
    for formula in wrong {
        assert!(value(formula, &[("a", Int(1))]).is_err(), "{formula}");
    }
}

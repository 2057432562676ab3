//! The plan as a state machine: errors go in, decisions come out.

use super::*;

/// A plan that has seen these validation errors, biases alone leaving 1.
fn plan(errors: &[f64]) -> Plan {
    let mut plan = Plan::new(&[8, 8, 8]);
    plan.biases_mse = Some(1.0);
    errors.iter().zip(1..).for_each(|(&mse, iteration)| plan.observe(iteration, mse, Some(mse)));
    plan
}

#[test]
fn the_plain_method_has_as_many_iterations_as_patience_allows_where_it_is_promising() {
    let mut falling: Vec<f64> = (1..40).map(|n| 0.6_f64.powi(n)).collect();
    assert!(!plan(&falling).probe_over(39, false, 10));
    assert!(plan(&falling).probe_over(39, true, 10), "no step lowers the cost");
    falling.extend([1.0; 10]);
    assert!(plan(&falling).probe_over(49, false, 10) && !plan(&falling).probe_over(48, false, 10));
    assert!(!plan(&falling).probe_over(49, false, 0), "patience 0 never ends");
}

#[test]
fn the_plain_method_is_given_up_where_biases_alone_say_nearly_as_much() {
    let noisy: Vec<f64> = (1..30).map(|n| 0.9 - 1e-3 * f64::from(n)).collect();
    let over = (1..30).find(|&iteration| plan(&noisy[..iteration]).probe_over(iteration, false, 10));
    assert_eq!(over, Some(20));
}

#[test]
fn the_plain_method_stays_where_hardly_anything_is_left() {
    for (mse, stays) in [(0.009, true), (0.011, false)] {
        let mut plan = plan(&[0.5, mse]);
        assert_eq!(plan.end_probe(2).validation_mse, mse);
        assert_eq!((plan.done, plan.tried.len()), (stays, 1));
    }
}

#[test]
fn gains_that_are_hardly_any_do_not_prolong_it() {
    let mut errors = vec![0.4];
    errors.extend((0..10).map(|n| 0.4 - 1e-6 * f64::from(n)));
    assert!(plan(&errors).probe_over(11, false, 10));
    assert_eq!(plan(&errors).best.unwrap().0, 0.4 - 9e-6);
}

#[test]
fn plans_of_versions_that_searched_are_read() {
    let old = |change: &str| {
        format!(
            r#"{{"stage": {{"ranks": [4, 4, 1], "held": [false, false, true], "smoothed": true, "bias": "modes",
            "lambda": 0.1, "kind": "log"}}, "change": {change}, "began": 20, "best": [0.7, 31], "costs": [0.5],
            "course": [0.7], "leader": null, "accepted": null, "failed": ["weaker"], "tried": [{{"change": "plain",
            "stage": {{"ranks": [4, 4, 4], "held": [false, false, false], "smoothed": false, "bias": "none",
            "lambda": 0.0, "kind": "nuclear"}}, "iterations": 20, "validation_mse": 0.9, "helped": false,
            "kept": false}}], "biases_mse": 0.8, "main": [0, 1], "usual_lambda": 0.1, "done": false}}"#
        )
    };
    let read = |change: &str| serde_json::from_str::<Plan>(&old(change)).unwrap();
    for change in [r#""weaker""#, r#"{"grow": [0, 1]}"#, r#"{"free": 2}"#, r#""rows""#] {
        assert!(matches!(read(change).change, Move::Search(_)), "{change}");
        let plan = read(change);
        assert_eq!(
            serde_json::to_value(&plan.change).unwrap(),
            serde_json::from_str::<serde_json::Value>(change).unwrap()
        );
    }
    assert_eq!(read(r#""plain""#).change, Move::Plain);
    assert_eq!(read(r#""begin""#).tried[0].change, Move::Plain);
    assert_eq!(read(r#"{"extend": 2}"#).change, Move::Extend(2));
}

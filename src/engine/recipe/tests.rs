//! The plan as a state machine: errors go in, decisions come out.

use super::*;

/// A plan that has seen these validation errors, biases alone leaving 1.
fn plan(errors: &[f64]) -> Plan {
    let mut plan = Plan::new(&[8, 8, 8]);
    plan.biases_mse = Some(1.0);
    errors.iter().zip(1..).for_each(|(&mse, iteration)| plan.observe(iteration, mse, Some(mse)));
    plan
}

/// Of values whose variance is 2.
fn over(plan: &Plan, iteration: usize) -> bool {
    plan.probe_over(iteration, plan.is_stale(iteration, 10), 2.0)
}

/// The first iteration after which the plain method is given up.
fn given_up(errors: &[f64]) -> Option<usize> {
    (1..=errors.len()).find(|&iteration| over(&plan(&errors[..iteration]), iteration))
}

#[test]
fn the_plain_method_has_as_many_iterations_as_patience_allows_where_it_is_promising() {
    let mut falling: Vec<f64> = (1..40).map(|n| 0.6_f64.powi(n)).collect();
    assert_eq!(given_up(&falling), None);
    assert!(plan(&falling).probe_over(39, true, 2.0), "no step lowers the cost");
    falling.extend([1.0; 10]);
    assert_eq!(given_up(&falling), Some(49));
    assert!(!plan(&falling).is_stale(49, 0), "patience 0 never ends");
}

#[test]
fn the_plain_method_is_given_up_where_biases_alone_say_nearly_as_much() {
    // Behind biases, after a glance; in between, later; and where biases tell nothing, also later.
    let noisy = |from: f64| (1..30).map(|n| from - 1e-3 * f64::from(n)).collect::<Vec<f64>>();
    assert_eq!([noisy(1.2), noisy(0.8)].map(|errors| given_up(&errors)), [Some(5), Some(20)]);
    let blind = |iteration: usize| {
        let mut plan = plan(&noisy(1.2)[..iteration]);
        plan.biases_mse = Some(1.9);
        over(&plan, iteration)
    };
    assert!(!blind(19) && blind(20));
}

#[test]
fn biases_are_looked_at_where_an_error_does_not_speak_for_itself() {
    let wanted = |mse: f64, iteration: usize, stuck: bool| {
        let mut plan = plan(&vec![mse; iteration]);
        plan.biases_mse = None;
        assert!(!over(&plan, iteration.min(9)), "nothing is given up before");
        plan.wants_biases(iteration, stuck, 2.0)
    };
    assert!(!wanted(1.2, 4, false) && wanted(1.2, 5, false), "as much as is left of noisy data");
    assert!(!wanted(0.3, 5, false) && wanted(0.3, 20, false), "as much as on a plateau");
    assert!(!wanted(1e-4, 20, false) && wanted(1e-4, 7, true), "nearly nothing");
    assert!(!plan(&[1.2; 30]).wants_biases(30, true, 2.0), "they are known already");
}

#[test]
fn the_plain_method_stays_where_hardly_anything_is_left() {
    for (mse, stays) in [(0.009, true), (0.011, false)] {
        let mut plan = plan(&[0.5, mse]);
        assert_eq!(plan.end_probe(2, 1.0, false).validation_mse, mse);
        assert_eq!((plan.done, plan.tried.len()), (stays, 1));
    }
}

#[test]
fn what_iterations_leave_is_counted_over_all_of_them() {
    let falling: Vec<f64> = (0..40).map(|n| 0.98_f64.powi(n)).collect();
    assert!(plan(&falling).leaves_more(10, 0.81) && !plan(&falling).leaves_more(10, 0.82));
    assert!(plan(&falling).leaves_more(25, 0.6), "as many costs are kept as it takes");
    assert!(!plan(&falling[..10]).leaves_more(10, 0.1), "ten iterations have eleven costs");
}

#[test]
fn gains_that_are_hardly_any_do_not_prolong_it() {
    let mut errors = vec![0.4];
    errors.extend((0..10).map(|n| 0.4 - 1e-6 * f64::from(n)));
    assert!(plan(&errors).is_stale(11, 10));
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

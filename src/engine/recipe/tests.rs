//! The plan as a state machine: errors go in, decisions come out.

use super::*;
use crate::objective::PenaltyKind;

const BOUND: [usize; 3] = [8, 8, 8];
const WEEKS: usize = 2;

fn recipe(penalty: PenaltyChoice) -> Recipe {
    Recipe { bias: BiasChoice::Modes, penalty, grow: true, ..Recipe::plain() }
}

/// A plan on its way, with a clock of its own.
struct Walk {
    plan: Plan,
    recipe: Recipe,
    iteration: usize,
}

impl Walk {
    /// With a first model of this error, after a plain one of that.
    fn begin(penalty: PenaltyChoice, plain: f64, first: f64) -> Self {
        let mut plan = Plan::new(&BOUND);
        (plan.biases_mse, plan.usual_lambda) = (Some(1.0), 0.1);
        let mut walk = Walk { plan, recipe: recipe(penalty), iteration: 0 };
        assert_eq!(walk.end(plain).trial.unwrap().1, Move::Begin);
        walk.end(first);
        walk
    }

    /// An iteration with this validation error; whether the stage is over then.
    fn iterate(&mut self, mse: f64) -> bool {
        self.iteration += 1;
        self.plan.observe(self.iteration, mse, Some(mse));
        self.plan.stage_over(self.iteration, false, 10)
    }

    /// Ends the stage with this as its best error, and begins the next.
    fn end(&mut self, mse: f64) -> Next {
        self.iterate(mse);
        let next = self.plan.next(self.iteration, &self.recipe, BiasChoice::Modes, &BOUND);
        if let Some((stage, change)) = next.trial.clone() {
            self.plan.enter(stage, change, self.iteration);
        }
        next
    }

    fn change(&self) -> &Move {
        &self.plan.change
    }

    fn accepted(&self) -> (&[usize], f64) {
        let (stage, mse) = self.plan.accepted.as_ref().unwrap();
        (&stage.ranks, *mse)
    }
}

const FIXED: PenaltyChoice = PenaltyChoice::Fixed(0.1);

fn both() -> Move {
    Move::Grow(vec![0, 1])
}

#[test]
fn of_several_ways_to_grow_the_one_that_helps_most_is_kept() {
    for (free, grow, ranks, change) in
        [(0.68, 0.65, [8, 8, 1], both()), (0.65, 0.68, [4, 4, 4], Move::Free(WEEKS))]
    {
        let mut walk = Walk::begin(FIXED, 0.9, 0.7);
        assert_eq!((walk.accepted(), walk.change()), ((&[4, 4, 1][..], 0.7), &Move::Free(WEEKS)));
        assert_eq!(walk.end(free).accepted, None, "others have their turn first");
        assert_eq!((walk.accepted().1, walk.change()), (0.7, &both()));
        assert_eq!(walk.plan.stage.ranks, [8, 8, 1], "from the same start");
        let next = walk.end(grow);
        assert_eq!(walk.plan.tried[next.accepted.unwrap()].change, change);
        assert_eq!(walk.accepted(), (&ranks[..], 0.65));
        let [.., first, second] = &walk.plan.tried[..] else { panic!() };
        assert!(first.helped && second.helped && first.kept != second.kept);
        // What has lost is tried again, from what has won.
        assert!(walk.plan.failed.is_empty() && walk.plan.leader.is_none() && !walk.plan.done);
        let all = Move::Grow(vec![0, 1, 2]);
        let expected = if change == both() { (Move::Free(WEEKS), [8, 8, 4]) } else { (all, [8, 8, 8]) };
        assert_eq!((walk.change(), &walk.plan.stage.ranks[..]), (&expected.0, &expected.1[..]));
    }
}

#[test]
fn the_first_of_equals_is_kept() {
    let mut walk = Walk::begin(FIXED, 0.9, 0.7);
    walk.end(0.65);
    walk.end(0.65);
    assert_eq!(walk.accepted().0, [4, 4, 4]);
}

#[test]
fn what_does_not_help_is_taken_back_and_not_tried_again() {
    let mut walk = Walk::begin(FIXED, 0.9, 0.7);
    // A gain too small to be more than noise.
    walk.end(0.69999);
    assert_eq!(walk.end(0.65).accepted, Some(3));
    // The rest of the way: the weeks, then everything.
    assert_eq!(walk.change(), &Move::Free(WEEKS));
    let next = walk.end(0.66);
    assert_eq!((next.accepted, next.trial, walk.plan.done), (None, None, true));
    assert_eq!(walk.accepted(), (&[8, 8, 1][..], 0.65));
    assert_eq!(walk.plan.tried.iter().filter(|tried| tried.kept).count(), 2);
}

#[test]
fn more_penalty_has_its_turn_where_no_growth_helps_alone() {
    let mut walk = Walk::begin(PenaltyChoice::Auto, 0.9, 0.7);
    for change in [Move::Log, Move::Weaker, Move::Stronger, Move::Free(WEEKS), both()] {
        assert_eq!(walk.change(), &change);
        walk.end(0.7);
    }
    assert_eq!(walk.change(), &Move::GrowStronger(vec![0, 1]));
    assert!(walk.plan.stage.lambda > 0.1 && walk.plan.stage.kind == PenaltyKind::Nuclear);
    assert!(walk.end(0.6).accepted.is_some());
    // After a growth, the penalty again, in both directions.
    assert_eq!(walk.change(), &Move::Weaker);
    walk.end(0.55);
    assert_eq!(walk.change(), &Move::Weaker);
    walk.end(0.55);
    assert_eq!(walk.change(), &Move::Free(WEEKS), "there is no way back up");
}

#[test]
fn a_way_to_grow_that_is_behind_at_the_same_age_is_given_up() {
    let leader = |step: usize| 0.69 - 0.001 * step as f64;
    for (ahead, ended) in [(-1e-3, None), (1e-3, Some(8))] {
        let mut walk = Walk::begin(FIXED, 0.9, 0.7);
        (1..=12).for_each(|step| assert!(!walk.iterate(leader(step))));
        walk.end(leader(12));
        assert_eq!(walk.change(), &both());
        assert_eq!((1..=12).find(|&step| walk.iterate(leader(step) + ahead)), ended);
    }
}

#[test]
fn growth_has_twice_the_patience_and_another_penalty_a_glance() {
    let mut walk = Walk::begin(PenaltyChoice::Auto, 0.9, 0.7);
    walk.end(0.7);
    assert_eq!(walk.change(), &Move::Weaker);
    assert_eq!((1..).find(|_| walk.iterate(0.7)), Some(3));
    walk.end(0.7);
    assert_eq!(walk.change(), &Move::Stronger);
    // One that is better goes on until it has settled.
    assert_eq!((1..).find(|_| walk.iterate(0.699)), Some(6));
    let mut walk = Walk::begin(FIXED, 0.9, 0.7);
    assert_eq!((1..).find(|_| walk.iterate(0.7)), Some(11));
}

#[test]
fn behind_the_plain_method_the_first_growth_that_helps_is_kept() {
    // Its model is not the best one, so that nobody would have it after another trial.
    let mut walk = Walk::begin(FIXED, 0.4, 0.7);
    assert!(walk.end(0.65).accepted.is_some());
    assert_eq!(walk.accepted(), (&[4, 4, 4][..], 0.65));
    // Ahead of it, there is a contest again.
    assert!(walk.end(0.3).accepted.is_some(), "no other way is left");
    assert!(walk.plan.done);
}

#[test]
fn a_plan_from_before_there_were_contests_is_read() {
    let mut walk = Walk::begin(FIXED, 0.9, 0.7);
    let mut text = serde_json::to_value(&walk.plan).unwrap();
    let plan = text.as_object_mut().unwrap();
    assert!(plan.remove("leader").is_some() && plan.remove("course").is_some());
    for tried in plan["tried"].as_array_mut().unwrap() {
        assert!(tried.as_object_mut().unwrap().remove("helped").is_some());
    }
    walk.plan = serde_json::from_value(text).unwrap();
    walk.end(0.65);
    assert_eq!(walk.end(0.66).accepted, Some(2));
}

//! The laws of the geometry: all metrics of the quotient, orders 2 to 5.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::*;
use crate::rows::Square;

fn shapes() -> [(Vec<usize>, Vec<usize>); 4] {
    [
        (vec![9, 8], vec![3, 3]),
        (vec![8, 7, 6], vec![3, 2, 4]),
        (vec![6, 5, 4, 5], vec![2, 3, 2, 2]),
        (vec![4, 3, 5, 3, 4], vec![2, 2, 3, 1, 2]),
    ]
}

/// A metric that is damped even for tensors as small as these,
const SPARSE: Damped = Damped::new(2);
/// where so much is missed that its eigenvalues are raised by about their own size.
const MISSED: f64 = 1e10;

fn geometries() -> [(&'static str, Box<dyn Geometry>); 3] {
    [
        ("preconditioned", Box::new(Preconditioned)),
        ("damped", Box::new(SPARSE)),
        ("Euclidean", Box::new(Euclidean)),
    ]
}

/// Calls `law` for every shape and metric.
fn everywhere(law: impl Fn(&str, &Point, &Frame<'_>, &mut Pcg64)) {
    for (n, (dims, ranks)) in shapes().iter().enumerate() {
        for (name, geometry) in geometries() {
            let point = random_point(dims, ranks, Distribution::Gaussian, n as u64);
            let frame = geometry.frame_missing(&point, MISSED);
            let label = format!("{name}, order {}", dims.len());
            law(&label, &point, &frame, &mut Pcg64::seed_from_u64(17));
        }
    }
}

fn difference(frame: &Frame<'_>, a: &Tangent, b: &Tangent) -> f64 {
    let mut d = a.clone();
    d.axpy(-1.0, b);
    (frame.inner(&d, &d) / frame.inner(a, a)).sqrt()
}

/// (U_d W_d, -sum_d G x_d W_d) for random skew W_d.
fn random_vertical(point: &Point, rng: &mut Pcg64) -> Tangent {
    let mut vertical = Tangent::zeros_like(point);
    for (mode, &r) in point.ranks().iter().enumerate() {
        let x = Square::from_fn(r, |_, _| Distribution::Gaussian.draw(rng));
        let w = Square::from_fn(r, |i, j| x[(i, j)] - x[(j, i)]);
        vertical.factors[mode].copy_from(&point.factors[mode]);
        vertical.factors[mode].multiply(&w);
        vertical.core.axpy(-1.0, &point.core.mode_product(mode, &w));
    }
    vertical
}

#[test]
fn projections_are_idempotent_and_orthogonal() {
    everywhere(|label, point, frame, rng| {
        let y = random_ambient(point, rng);
        let z = random_ambient(point, rng);
        let (mut psi, mut psi_z) = (y.clone(), z.clone());
        frame.project_tangent(&mut psi);
        frame.project_tangent(&mut psi_z);
        for (u, xi) in point.factors.iter().zip(&psi.factors) {
            let k = u.gram(xi);
            for i in 0..k.size() {
                for j in 0..k.size() {
                    assert!((k[(i, j)] + k[(j, i)]).abs() < 1e-13, "{label}: tangent");
                }
            }
        }
        let mut twice = psi.clone();
        frame.project_tangent(&mut twice);
        assert!(difference(frame, &psi, &twice) < 1e-13, "{label}: Psi twice");
        // What Psi removes is orthogonal to every tangent vector.
        let mut removed = y.clone();
        removed.axpy(-1.0, &psi);
        let size = (frame.inner(&removed, &removed) * frame.inner(&psi_z, &psi_z)).sqrt();
        assert!(frame.inner(&removed, &psi_z).abs() < 1e-12 * size, "{label}: normal");

        let mut pi = psi.clone();
        frame.project_horizontal(&mut pi);
        let mut twice = pi.clone();
        frame.project_horizontal(&mut twice);
        assert!(difference(frame, &pi, &twice) < 1e-12, "{label}: Pi twice");
        let vertical = random_vertical(point, rng);
        let size = (frame.inner(&pi, &pi) * frame.inner(&vertical, &vertical)).sqrt();
        assert!(frame.inner(&pi, &vertical).abs() < 1e-12 * size, "{label}: horizontal");
        let mut nothing = vertical.clone();
        frame.project_horizontal(&mut nothing);
        let left = frame.inner(&nothing, &nothing) / frame.inner(&vertical, &vertical);
        assert!(left.sqrt() < 1e-12, "{label}: vertical vectors vanish");

        let mut transported = y;
        frame.transport(&mut transported);
        assert!(difference(frame, &pi, &transported) < 1e-12, "{label}: transport");
    });
}

#[test]
fn inner_product_is_its_formula() {
    everywhere(|label, point, frame, rng| {
        let (xi, eta) = (random_ambient(point, rng), random_ambient(point, rng));
        let mut sum = xi.core.dot(&eta.core);
        for (mode, &r) in point.ranks().iter().enumerate() {
            let mut a = match label.starts_with("Euclidean") {
                true => Square::identity(r),
                false => point.core.unfolding_gram(&point.core, mode),
            };
            if label.starts_with("damped") {
                let delta = SPARSE.delta(point, MISSED);
                assert!(delta > 0.01, "{label}: {delta}");
                a = Square::from_fn(r, |i, j| a[(i, j)] + if i == j { delta } else { 0.0 });
            }
            let mut weighted = eta.factors[mode].clone();
            weighted.multiply(&a);
            let pairs = xi.factors[mode].as_slice().iter().zip(weighted.as_slice());
            sum += pairs.map(|(x, y)| x * y).sum::<f64>();
        }
        assert!((frame.inner(&xi, &eta) / sum - 1.0).abs() < 1e-11, "{label}");
        assert!((frame.inner(&eta, &xi) / sum - 1.0).abs() < 1e-11, "{label}");
        assert!(frame.inner(&xi, &xi) > 0.0);
    });
}

#[test]
fn metric_does_not_depend_on_the_representation() {
    for (dims, ranks) in shapes() {
        for (name, geometry) in geometries() {
            let mut rng = Pcg64::seed_from_u64(3);
            let point = random_point(&dims, &ranks, Distribution::Uniform, 4);
            let y = random_ambient(&point, &mut rng);
            let rotations = random_rotations(&ranks, &mut rng);
            let turn = |y: &Tangent| {
                let (factors, core) = (y.factors.clone(), y.core.clone());
                let turned = Point { factors, core }.rotated(&rotations);
                Tangent { factors: turned.factors, core: turned.core }
            };
            let rotated = point.rotated(&rotations);
            let mut there = turn(&y);
            let (frame, frame_there) = (geometry.frame(&point), geometry.frame(&rotated));
            frame_there.transport(&mut there);
            let mut here = y;
            frame.transport(&mut here);
            // Cores of the uniform generator have condition numbers near 1e5 squared.
            assert!(difference(&frame_there, &there, &turn(&here)) < 1e-9, "{name}");
        }
    }
}

#[test]
fn retractions_move_in_the_direction() {
    everywhere(|label, point, frame, rng| {
        let mut xi = random_ambient(point, rng);
        frame.transport(&mut xi);
        let index: Vec<usize> = point.dims().iter().map(|n| n / 2).collect();
        // The change of the tensor at one place, linearised.
        let mut change = 0.0;
        for mode in 0..=point.order() {
            let mut part = point.clone();
            match mode < point.order() {
                true => part.factors[mode].copy_from(&xi.factors[mode]),
                false => part.core.copy_from(&xi.core),
            }
            change += part.value_at(&index);
        }
        for retraction in [retract, retract_absorbing] {
            let (mut forth, mut back) = (point.clone(), point.clone());
            let h = 1e-5;
            retraction(point, &xi, h, &mut forth).unwrap();
            retraction(point, &xi, -h, &mut back).unwrap();
            let slope = (forth.value_at(&index) - back.value_at(&index)) / (2.0 * h);
            assert!((slope - change).abs() < 1e-6 * (1.0 + change.abs()), "{label}");
            for step in [0.0, 1.0, 1e3, 1e6] {
                retraction(point, &xi, step, &mut forth).unwrap();
                assert!(forth.orthonormality_error() < 1e-14, "{label}, step {step}");
            }
        }
        // The absorbing one stays on the line exactly.
        let (mut on_line, mut line) = (point.clone(), point.clone());
        retract_absorbing(point, &xi, 0.7, &mut on_line).unwrap();
        for (u, x) in line.factors.iter_mut().zip(&xi.factors) {
            u.axpy(0.7, x);
        }
        line.core.axpy(0.7, &xi.core);
        let (found, expected) = (on_line.value_at(&index), line.value_at(&index));
        assert!((found - expected).abs() < 1e-11 * (1.0 + expected.abs()), "{label}");
    });
}

#[test]
fn a_step_beyond_floating_point_is_refused() {
    let point = random_point(&[5, 4], &[2, 2], Distribution::Uniform, 1);
    let direction = random_ambient(&point, &mut Pcg64::seed_from_u64(1));
    let mut out = point.clone();
    for step in [f64::INFINITY, f64::NAN, 1e300] {
        assert_eq!(retract(&point, &direction, step, &mut out), Err(StepTooLong));
        assert_eq!(retract_absorbing(&point, &direction, step, &mut out), Err(StepTooLong));
    }
}

#[test]
fn a_singular_core_is_guarded_and_an_empty_one_survives() {
    let good = random_point(&[6, 5, 4], &[3, 2, 2], Distribution::Gaussian, 1);
    assert_eq!(Preconditioned.frame(&good).guarded(), 0);
    // The last slice of mode 1 vanishes; then everything does.
    let mut singular = good.clone();
    singular.core.as_mut_slice()[8..].fill(0.0);
    let mut zero = good.clone();
    zero.core.fill(0.0);
    let mut broken = good.clone();
    broken.core.as_mut_slice()[0] = f64::NAN;
    for (point, guarded) in [(&singular, 1), (&zero, 7)] {
        let frame = Preconditioned.frame(point);
        assert_eq!(frame.guarded(), guarded);
        let mut rng = Pcg64::seed_from_u64(2);
        let mut gradient = random_ambient(point, &mut rng);
        frame.gradient(&mut gradient);
        let mut transported = gradient.clone();
        frame.transport(&mut transported);
        let norm = frame.inner(&gradient, &gradient);
        assert!(norm.is_finite() && norm > 0.0);
        assert!(frame.inner(&transported, &transported).is_finite());
        let mut again = transported.clone();
        frame.transport(&mut again);
        assert!(difference(&frame, &transported, &again) < 1e-6);
    }
    // Numbers that are not finite give a frame all the same, and no panic.
    let frame = Preconditioned.frame(&broken);
    assert_eq!(frame.guarded(), 7);
    let mut vector = random_ambient(&broken, &mut Pcg64::seed_from_u64(2));
    frame.transport(&mut vector);
}

#[test]
fn large_ranks_take_the_iterative_solve() {
    // 3 * 15 * 14 / 2 = 315 unknowns.
    let ranks = [15, 15, 15];
    let unknowns: usize = ranks.iter().map(|r| r * (r - 1) / 2).sum();
    assert!(unknowns > DIRECT_UNKNOWNS);
    for (name, geometry) in geometries() {
        let point = random_point(&[20, 18, 16], &ranks, Distribution::Uniform, 1);
        let frame = geometry.frame(&point);
        let mut rng = Pcg64::seed_from_u64(2);
        let mut xi = random_ambient(&point, &mut rng);
        frame.transport(&mut xi);
        let vertical = random_vertical(&point, &mut rng);
        let size = (frame.inner(&xi, &xi) * frame.inner(&vertical, &vertical)).sqrt();
        assert!(frame.inner(&xi, &vertical).abs() < 1e-12 * size, "{name}");
    }
}

#[test]
fn rows_are_shortened_to_their_bound_and_no_others() {
    everywhere(|label, point, frame, rng| {
        let before = random_ambient(point, rng);
        let share = |xi: &Tangent, mode: usize, row: usize| {
            let mut alone = Tangent::zeros_like(point);
            alone.factors[mode].row_mut(row).copy_from_slice(xi.factors[mode].row(row));
            frame.inner(&alone, &alone)
        };
        // The second row's share is the bound: some are above it, some below, of every mode.
        let mut after = before.clone();
        frame.bound_rows(&mut after, |mode, _| share(&before, mode, 1));
        assert_eq!(after.core, before.core);
        for (mode, dim) in point.dims().into_iter().enumerate() {
            let most = share(&before, mode, 1);
            for row in 0..dim {
                let expected = share(&before, mode, row).min(most);
                let close = (share(&after, mode, row) / expected - 1.0).abs() < 1e-9;
                assert!(close, "{label}, row {row} of mode {mode}");
            }
        }
    });
}

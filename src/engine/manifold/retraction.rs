//! Moving along a tangent vector.
//!
//! Both retractions need the orthogonal factor uf(A) = A (A^T A)^(-1/2) of A = U + s xi. For
//! tangent xi, A^T A = I + s^2 xi^T xi; the full Gram matrix is used all the same, because it
//! also takes out what rounding has added to U^T U: the error does not build up over iterations.

use super::point::{Point, Tangent};
use crate::rows::Rows;
use crate::rows::Square;

/// Above this condition number of A^T A one orthogonalisation does not give all digits.
const SAFE_CONDITION: f64 = 16.0;

/// As many rounds as a condition number at the end of the double range may need.
const MAX_ROUNDS: usize = 6;

/// The step is too long to be taken in floating point: U + s xi is not finite, or has lost full
/// column rank to rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the step is too long for the retraction")]
pub struct StepTooLong;

/// The paper's retraction R_x(s xi) = (uf(U_d + s xi_d), G + s xi_G), into `out`.
///
/// # Errors
///
/// [`StepTooLong`]; `out` then holds nothing of use.
pub fn retract(point: &Point, direction: &Tangent, step: f64, out: &mut Point) -> Result<(), StepTooLong> {
    for mode in 0..point.order() {
        move_factor(point, direction, step, mode, out)?;
    }
    move_core(point, direction, step, out)
}

/// The retraction that stays on the line: U_d + s xi_d = uf(U_d + s xi_d) P_d, and P_d goes into
/// the core, so that the new point stands for exactly (G + s xi_G) x_d (U_d + s xi_d).
///
/// # Errors
///
/// [`StepTooLong`]; `out` then holds nothing of use.
pub fn retract_absorbing(
    point: &Point,
    direction: &Tangent,
    step: f64,
    out: &mut Point,
) -> Result<(), StepTooLong> {
    move_core(point, direction, step, out)?;
    for mode in 0..point.order() {
        let polar = move_factor(point, direction, step, mode, out)?;
        out.core = out.core.mode_product(mode, &polar);
    }
    Ok(())
}

fn move_core(point: &Point, direction: &Tangent, step: f64, out: &mut Point) -> Result<(), StepTooLong> {
    out.core.copy_from(&point.core);
    out.core.axpy(step, &direction.core);
    let finite = out.core.as_slice().iter().all(|x| x.is_finite());
    if finite { Ok(()) } else { Err(StepTooLong) }
}

/// Writes uf(U_d + s xi_d) into `out` and returns the polar factor P_d.
fn move_factor(
    point: &Point,
    direction: &Tangent,
    step: f64,
    mode: usize,
    out: &mut Point,
) -> Result<Square, StepTooLong> {
    let factor = &mut out.factors[mode];
    let gram = factor.set_moved(&point.factors[mode], step, &direction.factors[mode]);
    orthogonal_factor(factor, gram)
}

/// Replaces A by uf(A), given A^T A; returns P with A = uf(A) P.
fn orthogonal_factor(factor: &mut Rows, mut gram: Square) -> Result<Square, StepTooLong> {
    let mut polar = Square::identity(factor.rank());
    for _ in 0..MAX_ROUNDS {
        let (values, vectors) = gram.symmetric_eigen().ok_or(StepTooLong)?;
        let largest = values.iter().copied().fold(0.0, f64::max);
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        // Below this the smallest eigenvalue is rounding, and so would its direction be.
        if smallest <= f64::EPSILON * largest {
            return Err(StepTooLong);
        }
        let function = |power: fn(f64) -> f64| {
            let f: Vec<f64> = values.iter().map(|&v| power(v)).collect();
            Square::from_fn(f.len(), |i, j| {
                (0..f.len()).map(|a| vectors[(i, a)] * f[a] * vectors[(j, a)]).sum()
            })
        };
        factor.multiply(&function(|v| 1.0 / v.sqrt()));
        polar = function(f64::sqrt).times(&polar);
        if largest <= SAFE_CONDITION * smallest {
            return Ok(polar);
        }
        gram = factor.gram(factor);
    }
    Err(StepTooLong)
}

//! Sweeps over rows, in a checkpoint.

use crate::bayes::{
    Aside, Cells, Course, Fit, Inside, Level, OffsetTable, Position, Posterior, Prior, RowNumbers, Shape,
    Terms,
};
use crate::error::{Error, Result};
use crate::model::{Arrays, RowFeatures};
use crate::recipe::Sweeping;
use crate::storage::ContainerWriter;
use serde::{Deserialize, Serialize};

/// What is not in arrays.
#[derive(Serialize, Deserialize)]
pub(super) struct SweepingAbout {
    terms: Terms,
    course: Course,
    posterior: PosteriorAbout,
    before: Option<PosteriorAbout>,
}

#[derive(Serialize, Deserialize)]
struct PosteriorAbout {
    shape: Shape,
    noise: f64,
    sweep: usize,
    /// How many numbers of sums are carried to the next sweep.
    sums: usize,
    /// Whether these are filled up to whole vectors; before that was so, they cannot be read.
    #[serde(default)]
    padded: bool,
    residuals: f64,
    levels: Vec<LevelAbout>,
    /// Not in files from before there were any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tables: Vec<TableAbout>,
    /// The sweep that is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inside: Option<InsideAbout>,
}

/// Where a sweep stands, and how many numbers its arrays have.
#[derive(Serialize, Deserialize)]
struct InsideAbout {
    at: Position,
    seen: f64,
    sums: usize,
    moments: usize,
    given: usize,
    /// What new rows of the target add up to, where some wait for others.
    aside: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct TableAbout {
    /// Of the cells of two levels, or of the time since the first entry of the first, told by the second.
    levels: [usize; 2],
    time: bool,
    variance: f64,
}

#[derive(Serialize, Deserialize)]
struct LevelAbout {
    /// Numbers of h.
    features: usize,
    ridge: f64,
    /// Whether it is known how h is made, and whether a basis is part of that. Not in files from before there was
    /// use for it.
    #[serde(default)]
    tells: bool,
    #[serde(default)]
    basis: bool,
    /// Whether covariances are whole.
    #[serde(default)]
    whole: bool,
    /// The entries with which h counts half. Not in files from before it counted for less.
    #[serde(default)]
    half: f64,
}

fn doubles(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&x| f64::from(x)).collect()
}

fn singles(numbers: Vec<f64>) -> Vec<f32> {
    numbers.into_iter().map(|x| x as f32).collect()
}

const NOW: &str = "sweep.";
const BEFORE: &str = "sweep.before.";

pub(super) fn write(writer: &mut ContainerWriter<'_>, sweeping: &Sweeping) -> SweepingAbout {
    let Sweeping { fit, course, before } = sweeping;
    SweepingAbout {
        terms: fit.terms.clone(),
        course: course.clone(),
        posterior: write_posterior(writer, NOW, &fit.posterior),
        before: before.as_ref().map(|before| write_posterior(writer, BEFORE, before)),
    }
}

fn write_posterior(writer: &mut ContainerWriter<'_>, prefix: &str, posterior: &Posterior) -> PosteriorAbout {
    let mut levels = Vec::new();
    for (number, level) in posterior.levels.iter().enumerate() {
        let name = |what: &str| format!("{prefix}{number}.{what}");
        writer.array(name("means"), &level.means);
        writer.array(name("variances"), &doubles(&level.variances));
        writer.array(name("counts"), &level.counts);
        writer.array(name("features"), &doubles(&level.features.values));
        writer.array(name("coefficients"), &level.prior.coefficients);
        writer.array(name("covariance"), &level.prior.covariance);
        let whole = !level.covariances.is_empty();
        if whole {
            writer.array(name("covariances"), &doubles(&level.covariances));
        }
        let RowFeatures { width, basis, centre, scale, half, .. } = &level.features;
        let (tells, has_basis) = (!centre.is_empty(), !basis.is_empty());
        if tells {
            writer.array(name("centre"), centre);
            writer.array(name("scale"), scale);
        }
        if has_basis {
            writer.array(name("basis"), &doubles(basis));
        }
        levels.push(LevelAbout {
            features: *width,
            ridge: level.prior.ridge,
            tells,
            basis: has_basis,
            whole,
            half: *half,
        });
    }
    writer.array(format!("{prefix}sums"), &posterior.sums);
    let mut tables = Vec::new();
    for (number, OffsetTable { cells, values, counts, variance }) in posterior.tables.iter().enumerate() {
        let name = |what: &str| format!("{prefix}table.{number}.{what}");
        writer.array(name("values"), values);
        writer.array(name("counts"), counts);
        let (levels, time) = match cells {
            Cells::Pair { levels, .. } => (*levels, false),
            Cells::Time { of, clock, first } => {
                writer.array(name("first"), &first.iter().map(|&first| f64::from(first)).collect::<Vec<_>>());
                ([*of, *clock], true)
            }
        };
        tables.push(TableAbout { levels, time, variance: *variance });
    }
    PosteriorAbout {
        shape: posterior.shape.clone(),
        noise: posterior.noise,
        sweep: posterior.sweep,
        sums: posterior.sums.len(),
        padded: true,
        residuals: posterior.residuals,
        levels,
        tables,
        inside: posterior.inside.as_ref().map(|inside| write_inside(writer, prefix, inside)),
    }
}

fn write_inside(writer: &mut ContainerWriter<'_>, prefix: &str, inside: &Inside) -> InsideAbout {
    let Inside { at, seen, sums, moments, given, aside } = inside;
    let name = |what: &str| format!("{prefix}inside.{what}");
    writer.array(name("sums"), sums);
    writer.array(name("moments"), moments);
    writer.array(name("given"), given);
    if let Some(Aside { rows, moments }) = aside {
        writer.array(name("aside.means"), &rows.means);
        writer.array(name("aside.variances"), &doubles(&rows.variances));
        writer.array(name("aside.covariances"), &doubles(&rows.covariances));
        writer.array(name("aside.moments"), moments);
    }
    InsideAbout {
        at: *at,
        seen: *seen,
        sums: sums.len(),
        moments: moments.len(),
        given: given.len(),
        aside: aside.as_ref().map(|aside| aside.moments.len()),
    }
}

fn read_inside(arrays: &impl Arrays, prefix: &str, about: &InsideAbout, levels: &[Level]) -> Result<Inside> {
    let array = |what: &str, length: usize| arrays.array(&format!("{prefix}inside.{what}"), length);
    let InsideAbout { at, seen, sums, moments, given, aside } = about;
    let inside = Inside {
        at: *at,
        seen: *seen,
        sums: array("sums", *sums)?,
        moments: array("moments", *moments)?,
        given: array("given", *given)?,
        aside: match (aside, levels.get(at.target)) {
            (Some(moments), Some(level)) => {
                let rows = RowNumbers {
                    means: array("aside.means", level.means.len())?,
                    variances: singles(array("aside.variances", level.variances.len())?),
                    covariances: singles(array("aside.covariances", level.covariances.len())?),
                };
                Some(Aside { rows, moments: array("aside.moments", *moments)? })
            }
            _ => None,
        },
    };
    if inside.fits(levels) { Ok(inside) } else { Err(flaw(arrays)) }
}

pub(super) fn read(arrays: &impl Arrays, about: &SweepingAbout, dims: &[usize]) -> Result<Sweeping> {
    let SweepingAbout { terms, course, posterior, before } = about;
    let order = dims.len();
    let mut sorted = terms.mode_order.clone();
    sorted.sort_unstable();
    let [a, b] = terms.pair;
    if !sorted.into_iter().eq(0..order) || a >= b || b >= order {
        return Err(flaw(arrays));
    }
    let dims: Vec<usize> = terms.mode_order.iter().map(|&mode| dims[mode]).collect();
    let before = before.as_ref().map(|before| read_posterior(arrays, BEFORE, before, &dims).map(Box::new));
    Ok(Sweeping {
        fit: Fit { terms: terms.clone(), posterior: read_posterior(arrays, NOW, posterior, &dims)? },
        course: course.clone(),
        before: before.transpose()?,
    })
}

fn flaw(arrays: &impl Arrays) -> Error {
    Error::corrupt(arrays.path(), 0, "the rows of a sweep do not go with the modes")
}

fn read_posterior(
    arrays: &impl Arrays,
    prefix: &str,
    about: &PosteriorAbout,
    dims: &[usize],
) -> Result<Posterior> {
    let fits = about.shape.check(dims.len()).is_ok();
    if !fits || about.levels.len() != dims.len() {
        return Err(flaw(arrays));
    }
    let mut levels = Vec::new();
    for (number, ((level, &rows), &k)) in about.levels.iter().zip(dims).zip(&about.shape.widths).enumerate() {
        let array = |what: &str, length: Option<usize>| {
            let length = length.ok_or_else(|| flaw(arrays))?;
            arrays.array(&format!("{prefix}{number}.{what}"), length)
        };
        let (cells, of_features) = (rows.checked_mul(k), rows.checked_mul(level.features));
        let means = array("means", cells)?;
        let variances = singles(array("variances", cells)?);
        let counts = array("counts", Some(rows))?;
        let part = |what: &str, there: bool, length: Option<usize>| {
            if there { array(what, length) } else { Ok(Vec::new()) }
        };
        let features = RowFeatures {
            width: level.features,
            values: singles(array("features", of_features)?),
            basis: singles(part("basis", level.basis, of_features)?),
            centre: part("centre", level.tells, Some(level.features))?,
            scale: part("scale", level.tells, Some(level.features))?,
            half: level.half,
        };
        let coefficients = array("coefficients", k.checked_mul(features.count()))?;
        let prior = Prior::of(coefficients, array("covariance", Some(k * k))?, level.ridge);
        let prior = prior.ok_or_else(|| flaw(arrays))?;
        let covariances = match level.whole {
            true => singles(array("covariances", rows.checked_mul(Level::covariance_numbers(k)))?),
            false => Vec::new(),
        };
        levels.push(Level { rows, width: k, means, variances, covariances, counts, features, prior });
    }
    if about.sums > 0 && !about.padded {
        return Err(Error::request(
            "the checkpoint was written by an earlier tenfill in its first sweeps: complete the data anew",
        ));
    }
    let mut tables = Vec::new();
    for (number, TableAbout { levels: [a, b], time, variance }) in about.tables.iter().enumerate() {
        let array =
            |what: &str, length: usize| arrays.array(&format!("{prefix}table.{number}.{what}"), length);
        if a == b || *a >= dims.len() || *b >= dims.len() {
            return Err(flaw(arrays));
        }
        let cells = match time {
            false => Cells::Pair { levels: [*a, *b], width: dims[*b] },
            true => {
                let first = array("first", dims[*a])?.into_iter().map(|first| first as u32).collect();
                Cells::Time { of: *a, clock: *b, first }
            }
        };
        let count = cells.count(dims);
        let (values, counts) = (array("values", count)?, array("counts", count)?);
        tables.push(OffsetTable { cells, values, counts, variance: *variance });
    }
    let inside =
        about.inside.as_ref().map(|inside| read_inside(arrays, prefix, inside, &levels).map(Box::new));
    Ok(Posterior {
        shape: about.shape.clone(),
        inside: inside.transpose()?,
        levels,
        tables,
        noise: about.noise,
        sweep: about.sweep,
        sums: arrays.array(&format!("{prefix}sums"), about.sums)?,
        residuals: about.residuals,
    })
}

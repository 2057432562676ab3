//! Case R2: ratings of users x movies x weeks, five splits, ranks 4, 6, 8, 10, and what the weeks show.

use super::{Extent, Settings, publish};
use crate::Result;
use crate::factored::{self, Factored, Start};
use crate::figure::{self, Curves};
use crate::instance::Instance;
use crate::record::{Book, Rules};
use crate::told;
use std::io::{BufRead, BufReader};
use std::path::Path;
use tenfill_engine::kernel::Precision;
use tenfill_engine::manifold::Point;
use tenfill_engine::report::{Scale, periodogram};
use tenfill_engine::shard::ModeKind;

/// Runs R2 on a ratings file with users, movies, ratings and times.
pub fn ratings(file: &Path, settings: &Settings) -> Result<()> {
    let ranks: &[usize] = if settings.extent == Extent::Smoke { &[2] } else { &[4, 6, 8, 10] };
    let most = if settings.extent == Extent::Smoke { 20 } else { 500 };
    let rules = Rules { max_iterations: most, patience: 10, ..Rules::default() };
    let mut book = Book::default();
    let (mut shown, mut data) = (None, String::new());
    for split in 1..=settings.seeds(5) {
        let mut instance = Instance::of_ratings(file, split, has_header(file)?, &settings.work())?;
        let about = &instance.about;
        data = format!(
            ", on ratings of {} users, {} movies and {} weeks",
            about.dims[0], about.dims[1], about.dims[2]
        );
        for &rank in ranks {
            let dims = instance.about.dims.clone();
            instance.about.rank = dims.iter().map(|&n| rank.min(n)).collect();
            instance.about.instance = format!("r{rank}");
            for start in [Start::Raw, Start::Scaled] {
                for system in [Factored::Ours, Factored::GeomCg] {
                    let point =
                        factored::run(&mut book, &instance, system, start, &rules, Precision::default())?;
                    let wanted = split == 1 && rank == ranks[0];
                    if wanted && start == Start::Scaled && system == Factored::Ours {
                        shown = Some(weeks(&instance, &point)?);
                    }
                }
            }
        }
    }
    let folder = publish(&book, "R2", &data, settings)?;
    if let Some(weeks) = shown {
        weeks.write(&folder)?;
    }
    Ok(())
}

/// Files of MovieLens before the CSV ones have no header.
fn has_header(file: &Path) -> Result<bool> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut line = String::new();
    let name = file.to_string_lossy();
    if name.ends_with(".gz") || name.ends_with(".zst") || name.ends_with(".parquet") {
        return Ok(true);
    }
    BufReader::new(std::fs::File::open(file).map_err(failed)?).read_line(&mut line).map_err(failed)?;
    Ok(!line.starts_with(|c: char| c.is_ascii_digit()))
}

/// The components over the weeks, strongest first.
struct Weeks {
    /// Seconds since 1970 and loading, by component.
    components: Vec<Vec<(f64, f64)>>,
    /// Days, and the share of the variance that a wave of that length explains, by component.
    periods: Vec<Vec<(f64, f64)>>,
    /// The period in days that stands out, and its share.
    dominant: Vec<Option<(f64, f64)>>,
}

/// The week factor turned to the left singular vectors of the core's unfolding by weeks, which do not
/// depend on the representation.
fn weeks(instance: &Instance, point: &Point) -> Result<Weeks> {
    let manifest = instance.dataset.manifest();
    let found = manifest.modes.iter().position(|mode| matches!(mode.kind, ModeKind::Bins(_)));
    let Some((mode, ModeKind::Bins(bins))) = found.map(|mode| (mode, &manifest.modes[mode].kind)) else {
        return Err("the ratings have no column of times".into());
    };
    let eigen = point.core.unfolding_gram(&point.core, mode).symmetric_eigen();
    let (_, vectors) = eigen.ok_or("the model has numbers that are not finite")?;
    let rank = vectors.size();
    let mut entries = vec![0u64; point.factors[mode].rows()];
    let counted = instance
        .dataset
        .for_each(tenfill_engine::shard::Split::Train, |indices, _| entries[indices[mode] as usize] += 1);
    counted.map_err(told)?;
    let known: Vec<usize> = (0..entries.len()).filter(|&week| entries[week] > 0).collect();
    const DAY: f64 = 86_400.0;
    let (mut components, mut periods, mut dominant) = (Vec::new(), Vec::new(), Vec::new());
    for component in (0..rank).rev() {
        let loading = |week: usize| -> f64 {
            let row = point.factors[mode].row(week);
            (0..rank).map(|a| row[a] * vectors[(a, component)]).sum()
        };
        let at = |week: usize| bins.origin + bins.width * (week as f64 + 0.5);
        components.push(known.iter().map(|&week| (at(week), loading(week))).collect());
        let weighted: Vec<(f64, f64, f64)> =
            known.iter().map(|&week| (at(week), loading(week), (entries[week] as f64).sqrt())).collect();
        let searched = periodogram(&weighted, bins.width);
        dominant
            .push(searched.as_ref().and_then(|s| s.dominant).map(|(period, share)| (period / DAY, share)));
        let power = searched.map_or(Vec::new(), |searched| searched.power);
        periods.push(power.iter().rev().map(|(period, share)| (period / DAY, share * 100.0)).collect());
    }
    Ok(Weeks { components, periods, dominant })
}

impl Weeks {
    fn write(&self, folder: &Path) -> Result<()> {
        let curves = |all: &[Vec<(f64, f64)>]| -> Vec<Curves> {
            let name = |k: usize| match self.dominant[k] {
                Some((days, share)) => {
                    format!("component {}: {days:.0} days, {:.0} % of its variance", k + 1, share * 100.0)
                }
                None => format!("component {}: no period stands out", k + 1),
            };
            let one =
                |(k, points): (usize, &Vec<(f64, f64)>)| Curves { name: name(k), runs: vec![points.clone()] };
            all.iter().enumerate().map(one).collect()
        };
        let (date, loading) = (("", Scale::Date), ("loading", Scale::Number));
        let title = "R2: the latent components over the weeks";
        figure::plain(&folder.join("weeks.svg"), title, date, loading, &curves(&self.components))?;
        let (days, share) = (("period in days", Scale::Number), ("% of variance", Scale::Number));
        let title = "R2: what a wave of each length explains";
        figure::plain(&folder.join("periods.svg"), title, days, share, &curves(&self.periods))?;
        let lines = self.dominant.iter().enumerate().map(|(k, dominant)| match dominant {
            Some((days, share)) => format!("{},{days},{share}\n", k + 1),
            None => format!("{},,\n", k + 1),
        });
        let text = "component,period_days,share\n".to_string() + &lines.collect::<String>();
        let path = folder.join("periods.csv");
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

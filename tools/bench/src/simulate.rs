//! A model of what a run over MPI costs: from nanoseconds per entry, bytes per pass, latency and bandwidth
//! to the time of an iteration on any number of machines.
//!
//! An iteration is a gradient pass and a step pass over m entries. With N processes, one per machine, of T
//! threads, rows n_0, n_1, ... of the levels (n_0 that of the slices) and rank r, per process:
//!
//! - compute: m (a + b) / (N T), with a and b the nanoseconds of a core per entry;
//! - rows that are read (`Exchange::gather`): S = 8 r (n_1 + n_2 + ...) bytes of the point in the gradient
//!   pass and of the direction in the step pass, times (N - 1) / N, because a share is its own; of the
//!   slices those that others own, at the most 8 r n_0 / N;
//! - running sums of the gradient (`Exchange::sum`): S in from the process before, S out to the next at the
//!   same time, in tiles of 4096 rows: (S / t + N - 1) times the time of a tile of t bytes, where the
//!   last term fills the pipeline; complete sums go to their owners meanwhile: S / N per owner;
//! - the dense side, c nanoseconds per row and iteration of all modes, divided by N T.
//!
//! The time of a message is latency + bytes / bandwidth. Rows are taken to be touched by every process, which
//! is the worst case: what is touched by few travels less.

/// Predict the time of an iteration on 1 to 256 machines
#[derive(clap::Args)]
pub struct Arguments {
    /// Nanoseconds of one core per entry of a gradient pass (`kernels` measures it; it prints that of two)
    #[arg(long, default_value_t = 17.6)]
    gradient_ns: f64,
    /// Likewise of a step pass
    #[arg(long, default_value_t = 17.0)]
    step_ns: f64,
    /// Nanoseconds of one core per row of all modes and iteration, of dense algebra (`iterations`)
    #[arg(long, default_value_t = 400.0)]
    dense_ns: f64,
    /// Threads of a machine
    #[arg(long, default_value_t = 16)]
    threads: usize,
    /// Seconds that a message takes at the least
    #[arg(long, default_value_t = 2e-6)]
    latency: f64,
    /// Bytes per second between two machines; the default is 100 Gbit/s
    #[arg(long, default_value_t = 12.5e9)]
    bandwidth: f64,
    /// The rank of all modes
    #[arg(long, default_value_t = 10)]
    rank: usize,
    /// Another tensor: its entries and, after them, the rows of its modes, that of the slices first
    #[arg(long, value_delimiter = ',', value_name = "ENTRIES,ROWS,ROWS,...")]
    tensor: Option<Vec<f64>>,
}

/// Rows of a message.
const TILE_ROWS: f64 = 4096.0;
const NODES: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// What an iteration costs one of N processes.
#[derive(Debug, Clone, Copy)]
struct Cost {
    compute: f64,
    travel: f64,
    bytes: f64,
}

impl Cost {
    fn total(&self) -> f64 {
        self.compute + self.travel
    }

    fn share(&self) -> f64 {
        self.travel / self.total()
    }
}

impl Arguments {
    fn cost(&self, entries: f64, rows: &[f64], nodes: usize) -> Cost {
        let (n, cores) = (nodes as f64, (nodes * self.threads) as f64);
        let row = 8.0 * self.rank as f64;
        let dense = self.dense_ns * rows.iter().sum::<f64>();
        let compute = 1e-9 * (entries * (self.gradient_ns + self.step_ns) + dense) / cores;
        if nodes == 1 {
            return Cost { compute, travel: 0.0, bytes: 0.0 };
        }
        let read: f64 = rows[1..].iter().sum::<f64>() * row;
        let own = rows[0] / n * row;
        let tile = TILE_ROWS * row;
        let time = |messages: f64, bytes: f64| messages * self.latency + bytes / self.bandwidth;
        // Rows of the point and of the direction are brought here, each in tiles from every other process.
        let gathered = 2.0 * (read * (n - 1.0) / n + own);
        let tiles: f64 = rows[1..].iter().map(|rows| (rows / TILE_ROWS).ceil()).sum();
        let gather = time(2.0 * tiles.max(n - 1.0), gathered);
        let chain = (tiles + n - 1.0) * time(1.0, tile);
        let complete = time(tiles / n, read / n + own);
        Cost { compute, travel: gather + chain + complete, bytes: gathered + read + read / n + own }
    }
}

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let mut tensors = vec![
        ("amazon-reviews", 1.742e9, vec![4.821e6, 1.774e6, 1.805e6]),
        ("reddit-2015", 4.687e9, vec![8.211e6, 1.77e5, 8.117e6]),
    ];
    if let Some(own) = &arguments.tensor {
        if own.len() < 3 || own.iter().any(|x| !(x.is_finite() && *x >= 1.0)) {
            return Err("--tensor takes the entries and the rows of at least two modes".into());
        }
        tensors = vec![("the given tensor", own[0], own[1..].to_vec())];
    }
    println!(
        "rank {}, {} threads per machine, {} + {} ns of a core per entry, {:.1} us, {:.1} GB/s",
        arguments.rank,
        arguments.threads,
        arguments.gradient_ns,
        arguments.step_ns,
        arguments.latency * 1e6,
        arguments.bandwidth / 1e9
    );
    for (name, entries, rows) in &tensors {
        println!("\n{name}: {entries:.3e} entries, rows {rows:?}");
        println!(
            "{:>8} {:>12} {:>12} {:>12} {:>10} {:>10} {:>14}",
            "machines", "compute s", "travel s", "iteration s", "travel", "speed-up", "GB per machine"
        );
        let one = arguments.cost(*entries, rows, 1).total();
        for nodes in NODES {
            let cost = arguments.cost(*entries, rows, nodes);
            println!(
                "{nodes:>8} {:>12.3} {:>12.3} {:>12.3} {:>9.0}% {:>10.1} {:>14.2}",
                cost.compute,
                cost.travel,
                cost.total(),
                100.0 * cost.share(),
                one / cost.total(),
                cost.bytes / 1e9
            );
        }
        match (2..=4096).find(|&nodes| arguments.cost(*entries, rows, nodes).share() >= 0.5) {
            Some(nodes) => println!("travel takes half of the time from {nodes} machines on"),
            None => println!("travel takes less than half of the time on up to 4096 machines"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn more_machines_compute_less_and_talk_more() {
        let arguments = Line::parse_from(["simulate"]).arguments;
        let costs: Vec<Cost> =
            NODES.iter().map(|&nodes| arguments.cost(1e9, &[5e6, 2e6, 2e6], nodes)).collect();
        for pair in costs.windows(2) {
            assert!(pair[1].compute < pair[0].compute && pair[1].share() > pair[0].share());
        }
        // Nobody sends more than the rows of which the formula speaks.
        assert!(costs.iter().all(|cost| cost.bytes <= 8.0 * 10.0 * (3.5 * 4e6 + 3.0 * 2.5e6)));
    }
}

//! The rows that a pass reads, where other processes own some of them.

use crate::reduce::Exchange;
use crate::rows::Rows;
use crate::team::Combine;

/// The rows of a point or a direction that this process reads in a pass, where it does not own all.
#[derive(Debug, Default)]
pub(super) struct RemoteRows {
    levels: Vec<Rows>,
    /// What this process's own rows were when they last travelled.
    sent: Vec<u128>,
}

impl RemoteRows {
    /// The factors in storage order: as they are, or with the rows that others own brought here.
    pub(super) fn of<'a>(
        &'a mut self,
        factors: &'a [Rows],
        order: &[usize],
        exchange: &Exchange,
    ) -> Vec<&'a [f64]> {
        if exchange.team().is_alone() || factors.iter().all(|rows| rows.team().is_alone()) {
            return order.iter().map(|&mode| factors[mode].as_slice()).collect();
        }
        let shape = |rows: &Rows| (rows.rows(), rows.rank());
        let same = self.levels.len() == order.len()
            && order.iter().zip(&self.levels).all(|(&mode, level)| shape(&factors[mode]) == shape(level));
        if !same {
            // Zeros that nobody touches take no memory: of a level only the rows that are read do.
            self.levels.clear();
            self.levels.extend(order.iter().map(|&mode| {
                let (rows, rank) = shape(&factors[mode]);
                Rows::zeros(rows, rank)
            }));
            self.sent.clear();
        }
        // A step pass reads the point that the gradient pass before it has read: what nobody has changed
        // since does not travel again.
        let own = |&mode: &usize| xxhash_rust::xxh3::xxh3_128(bytemuck::cast_slice(factors[mode].as_slice()));
        let own: Vec<u128> = order.iter().map(own).collect();
        let mut changed: Vec<u64> =
            (0..order.len()).map(|level| u64::from(self.sent.get(level) != Some(&own[level]))).collect();
        exchange.team().combine(&mut changed, Combine::Or);
        for (level, &mode) in order.iter().enumerate() {
            if changed[level] != 0 {
                exchange.gather(level, &factors[mode], &mut self.levels[level]);
            }
        }
        self.sent = own;
        self.levels.iter().map(Rows::as_slice).collect()
    }
}

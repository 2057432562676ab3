//! What a user may ask of a generator that cannot be made.

use crate::{MAX_ORDER, MIN_ORDER};

/// Why an instance cannot be generated; modes are counted from 1, as on the command line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SynthError {
    /// Too few or too many modes.
    #[error(
        "a tensor needs {MIN_ORDER} to {MAX_ORDER} modes, but {order} dimensions were given; change `dims`"
    )]
    Order {
        /// The number of dimensions given.
        order: usize,
    },
    /// Dimensions and ranks do not pair up.
    #[error(
        "{dims} dimensions need as many ranks, but {ranks} were given; make `dims` and `rank` equally long"
    )]
    RankCount {
        /// The number of dimensions given.
        dims: usize,
        /// The number of ranks given.
        ranks: usize,
    },
    /// A mode without indices.
    #[error("the dimension of mode {mode} is 0; every mode needs at least one index")]
    ZeroDimension {
        /// The mode, from 1.
        mode: usize,
    },
    /// A mode without columns.
    #[error("the rank of mode {mode} is 0; every rank must be at least 1")]
    ZeroRank {
        /// The mode, from 1.
        mode: usize,
    },
    /// More columns than rows.
    #[error("rank {rank} of mode {mode} exceeds its dimension {dim}; lower the rank to at most {dim}")]
    RankAboveDimension {
        /// The mode, from 1.
        mode: usize,
        /// Its rank.
        rank: usize,
        /// Its dimension.
        dim: u32,
    },
    /// No core has an unfolding of that rank.
    #[error(
        "rank {rank} of mode {mode} exceeds {product}, the product of the other ranks, and no tensor has such a rank; lower it to at most {product}"
    )]
    RankAboveOthers {
        /// The mode, from 1.
        mode: usize,
        /// Its rank.
        rank: usize,
        /// The product of the other ranks.
        product: u128,
    },
    /// The core alone would fill the memory.
    #[error("ranks {rank:?} make a core of {values} values, above the limit of {limit}; lower `rank`")]
    CoreTooLarge {
        /// The ranks.
        rank: Vec<usize>,
        /// The number of values of the core.
        values: u128,
        /// The most that is allowed.
        limit: u128,
    },
    /// Cells cannot be numbered.
    #[error("dimensions {dims:?} make more than 2^126 cells, too many to draw from; lower `dims`")]
    TooManyCells {
        /// The dimensions.
        dims: Vec<u32>,
    },
    /// Nothing to train on.
    #[error("0 train entries were asked for; give at least 1 by `entries` or `oversampling`")]
    NoEntries,
    /// More entries than cells.
    #[error(
        "{asked} entries (train, validation and test) were asked for, but the tensor has only {cells} cells and none is drawn twice; lower `entries`, `oversampling` or `test`, or raise `dims`"
    )]
    TooManyEntries {
        /// Train, validation and test entries together.
        asked: u128,
        /// The product of the dimensions.
        cells: u128,
    },
    /// More ratings than pairs of user and item.
    #[error(
        "{asked} ratings (train, validation and test) were asked for, but {users} users can rate {items} items only {cells} times, each item once; lower `entries` or `test`, or raise `dims`"
    )]
    TooManyRatings {
        /// Train, validation and test entries together.
        asked: u128,
        /// The number of users.
        users: u32,
        /// The number of items.
        items: u32,
        /// Their product.
        cells: u64,
    },
    /// A noise level that is none.
    #[error("noise {noise} is not a level; give a finite number of at least 0 by `noise`")]
    Noise {
        /// The noise given.
        noise: f64,
    },
    /// A condition number that is none.
    #[error(
        "condition number {condition} is impossible for rank {rank}; give a finite number of at least 1 by `condition` (exactly 1 for rank 1)"
    )]
    Condition {
        /// The condition number given.
        condition: f64,
        /// The rank of every mode.
        rank: usize,
    },
    /// A diagonal core is a cube.
    #[error(
        "`condition` makes a diagonal core, which needs equal ranks, but they are {rank:?}; make them equal"
    )]
    ConditionRanks {
        /// The ranks.
        rank: Vec<usize>,
    },
    /// A number of entries that cannot be meant.
    #[error(
        "oversampling {oversampling} of {dof} degrees of freedom is not a number of entries; give a positive finite number by `oversampling`"
    )]
    Oversampling {
        /// The oversampling given.
        oversampling: f64,
        /// The degrees of freedom.
        dof: u64,
    },
    /// More tastes than users or items.
    #[error(
        "latent rank {rank} exceeds {limit}, the smaller of the numbers of users and items; lower it to at most {limit}"
    )]
    LatentRank {
        /// The rank given.
        rank: usize,
        /// The smaller of users and items.
        limit: u32,
    },
    /// A session holds one rating or more.
    #[error("a mean of {session} ratings per session is impossible; give a finite number of at least 1")]
    Session {
        /// The mean session size given.
        session: f64,
    },
}

//! Outputs: only what is provably ours is replaced, and last.

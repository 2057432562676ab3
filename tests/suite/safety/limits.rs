//! Memory, threads, signals, and files that are not what they should be.

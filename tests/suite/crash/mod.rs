//! Crashes and failing disks, simulated: after each, the old or the new state loads, never a third.

mod checkpoints;
mod datasets;
mod faulty;
mod files;
mod image;
mod recorder;
mod runs;
mod sample;

//! Every file that matters is written through here: whole or absent, whatever happens.
//!
//! * [`Disk`]: the few operations of a file system that writing durably needs. [`RealDisk`] does
//!   them; tests put a disk in its place that fails or loses power at a chosen moment.
//! * [`AtomicFile`]: temporary name, write, sync, rename, sync the directory.
//! * [`Container`]: a checksummed file of named arrays, for models and checkpoints.
//! * [`Staging`]: the same for a directory of files.
//! * [`Output`]: what a command may replace, and what it must not touch: its inputs.
//! * [`Kind`]: what is provably ours. Nothing else is ever replaced or cleaned up.
//! * [`Lock`]: one process at a time.
//! * [`open_regular`]: the way to every file inside a dataset or a run; a pipe or a link is refused.
//! * [`RunLayout`]: the names in a run directory.
//!
//! Scratch files of the sort do not come here: they are unlinked while open, so nothing of them
//! can stay behind.

mod atomic;
mod container;
mod disk;
mod guard;
mod lock;
mod mistaken;
mod output;
mod ownership;
mod partial;
mod regular;
mod run_layout;
mod staging;

pub use atomic::{AtomicFile, write_atomic};
pub use container::{ArrayWriter, CONTAINER_VERSION, Container, ContainerWriter};
pub use disk::{Disk, DiskFile, NoDisk, RealDisk};
pub(crate) use guard::guarded;
pub use guard::is_guarded;
pub use lock::Lock;
pub use mistaken::{MANIFEST_FILE, no_dataset, no_run, no_table};
pub use output::Output;
pub use ownership::{Kind, Listing};
pub use partial::{make_dir, remove_partial, temporary_path};
pub(crate) use regular::OPEN_FLAGS;
pub use regular::{check_folders, open_regular, read_regular};
pub use run_layout::RunLayout;
pub use staging::Staging;

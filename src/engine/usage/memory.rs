//! How much memory there is for this process: the machine's, or less where a control group (a
//! container, a batch job, a service) says so.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Where the system tells about itself: `/`, or a folder that a test has filled.
#[derive(Debug, Clone)]
pub struct System {
    root: PathBuf,
}

/// The files of a version of control groups.
struct Version {
    /// The least of these is the limit; a file without a number sets none.
    limits: &'static [&'static str],
    used: &'static str,
    /// Lines of `memory.stat`: pages of files, which are given up when others need the room.
    cached: [&'static str; 2],
}

const SECOND: Version = Version {
    // Above the second a process is slowed down rather than ended: no place to work at.
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    cached: ["active_file", "inactive_file"],
};

const FIRST: Version = Version {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    cached: ["total_active_file", "total_inactive_file"],
};

impl Default for System {
    fn default() -> Self {
        System::at("/")
    }
}

impl System {
    /// The system whose `/proc` and `/sys` lie in `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        System { root: root.into() }
    }

    /// All memory that this process may have: the machine's, or the limit of a control group that it is
    /// in, or of one above, whichever is least.
    pub fn memory_bytes(&self) -> Option<u64> {
        let limits = self.groups().into_iter().map(|group| group.0);
        self.meminfo("MemTotal:").into_iter().chain(limits).min()
    }

    /// The memory of those that this process could use now without swapping.
    pub fn available_bytes(&self) -> Option<u64> {
        let free = self.groups().into_iter().map(|(limit, used)| limit.saturating_sub(used));
        self.meminfo("MemAvailable:").into_iter().chain(free).min()
    }

    fn read(&self, path: &str) -> Option<String> {
        read_to_string(self.root.join(path)).ok()
    }

    fn meminfo(&self, field: &str) -> Option<u64> {
        let text = self.read("proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    }

    /// Limit and use of every group with a limit that this process is in, and of those above.
    fn groups(&self) -> Vec<(u64, u64)> {
        let groups = self.read("proc/self/cgroup").unwrap_or_default();
        let mounts = self.read("proc/self/mountinfo").unwrap_or_default();
        let mut found = Vec::new();
        for line in groups.lines() {
            // number:controllers:group; the second version has one hierarchy for all controllers.
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
            let version = match controllers {
                "" => &SECOND,
                _ if controllers.split(',').any(|name| name == "memory") => &FIRST,
                _ => continue,
            };
            let (shown, mount) = mount(&mounts, version).unwrap_or(("/", version.usual_mount()));
            // In a container the mount may show the group itself, or one above it, as its root.
            let inside = Path::new(group).strip_prefix(shown).unwrap_or(Path::new(""));
            let top = self.root.join(mount.trim_start_matches('/'));
            let own = top.join(inside);
            let above = own.ancestors().take_while(|folder| folder.starts_with(&top));
            found.extend(above.filter_map(|folder| version.of(folder)));
        }
        found
    }
}

impl Version {
    fn usual_mount(&self) -> &'static str {
        if self.used == SECOND.used { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/memory" }
    }

    /// Limit and use of the group in a folder; none where it has no limit.
    fn of(&self, folder: &Path) -> Option<(u64, u64)> {
        let number = |file: &str| read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
        let limit = self.limits.iter().filter_map(|file| number(file)).min()?;
        let stat = read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let cached = stat.lines().filter_map(|line| {
            let (name, bytes) = line.split_once(' ')?;
            self.cached.contains(&name).then(|| bytes.trim().parse::<u64>().ok()).flatten()
        });
        let cached = cached.fold(0, u64::saturating_add);
        Some((limit, number(self.used).unwrap_or(0).saturating_sub(cached)))
    }
}

/// What a hierarchy of groups is mounted at, and which group is seen there, from `mountinfo`: number,
/// parent, device, root, mount point, options, ..., a dash, type, source, options.
fn mount<'t>(mounts: &'t str, version: &Version) -> Option<(&'t str, &'t str)> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let right = match (kind.next()?, version.used == SECOND.used) {
            ("cgroup2", true) => true,
            ("cgroup", false) => kind.nth(1)?.split(',').any(|name| name == "memory"),
            _ => false,
        };
        let mut place = place.split(' ').skip(3);
        right.then_some((place.next()?, place.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MIB: u64 = 1 << 20;

    fn system(files: &[(&str, String)]) -> (tempfile::TempDir, System) {
        let root = tempfile::tempdir().unwrap();
        let machine =
            ("proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n".to_string());
        for (path, text) in files.iter().chain([&machine]) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let system = System::at(root.path());
        (root, system)
    }

    #[test]
    fn without_groups_the_machine_counts() {
        let (_root, system) = system(&[]);
        assert_eq!(system.memory_bytes(), Some(8192 * MIB));
        assert_eq!(system.available_bytes(), Some(4096 * MIB));
        assert_eq!(System::at("/nowhere").memory_bytes(), None);
        // And this machine tells something.
        assert!(System::default().memory_bytes().is_none_or(|bytes| bytes > MIB));
    }

    #[test]
    fn the_limit_of_a_group_of_the_second_version() {
        let group = "sys/fs/cgroup/jobs/one";
        let (root, system) = system(&[
            ("proc/self/cgroup", "0::/jobs/one\n".into()),
            (&format!("{group}/memory.max"), format!("{}\n", 512 * MIB)),
            (&format!("{group}/memory.high"), "max\n".into()),
            (&format!("{group}/memory.current"), format!("{}\n", 300 * MIB)),
            (
                &format!("{group}/memory.stat"),
                format!("anon 5\nactive_file {}\ninactive_file {}\n", 100 * MIB, 50 * MIB),
            ),
        ]);
        assert_eq!(system.memory_bytes(), Some(512 * MIB));
        // Of what is used, files could go.
        assert_eq!(system.available_bytes(), Some((512 - 150) * MIB));
        // A group above may allow less, and so may a limit at which processes are slowed down.
        fs::write(root.path().join("sys/fs/cgroup/jobs/memory.max"), "268435456\n").unwrap();
        assert_eq!(system.memory_bytes(), Some(256 * MIB));
        fs::write(root.path().join(group).join("memory.high"), "67108864\n").unwrap();
        assert_eq!(system.memory_bytes(), Some(64 * MIB));
        // More than the machine has is no limit.
        for file in ["jobs/memory.max", "jobs/one/memory.max", "jobs/one/memory.high"] {
            fs::write(root.path().join("sys/fs/cgroup").join(file), "max\n").unwrap();
        }
        assert_eq!(system.memory_bytes(), Some(8192 * MIB));
    }

    #[test]
    fn the_limit_of_a_group_of_the_first_version() {
        let (_root, system) = system(&[
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n".into()),
            (
                "proc/self/mountinfo",
                "30 25 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n".into(),
            ),
            // The container sees its own group as the root of the mount.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", format!("{}\n", 128 * MIB)),
        ]);
        assert_eq!(system.memory_bytes(), Some(128 * MIB));
        assert_eq!(system.available_bytes(), Some(128 * MIB));
    }

    #[test]
    fn groups_are_found_where_they_are_mounted() {
        let (_root, system) = system(&[
            ("proc/self/cgroup", "0::/pod/box\n".into()),
            (
                "proc/self/mountinfo",
                "1 0 8:1 / / rw - ext4 /dev/sda rw\n31 25 0:27 /pod /run/groups rw,nosuid shared:4 - cgroup2 none rw\n"
                    .into(),
            ),
            ("run/groups/box/memory.max", format!("{}\n", 96 * MIB)),
        ]);
        assert_eq!(system.memory_bytes(), Some(96 * MIB));
    }
}

//! Whether the kernel may swap this process out.
//!
//! It decides how a pooled instance is cleaned: the fast way (`pagemap_scan`) looks only at pages that are present, so
//! a page that was written and swapped out would keep an earlier guest's bytes.

use std::path::Path;

/// True unless it is sure that no page of this process can be swapped out.
pub(crate) fn may_be_swapped() -> bool {
    let Ok(swaps) = std::fs::read_to_string("/proc/swaps") else { return true };
    if !has_swap(&swaps) {
        return false;
    }
    let Ok(cgroup) = std::fs::read_to_string("/proc/self/cgroup") else { return true };
    !swap_forbidden(&cgroup, |path| std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(path)).ok())
}

/// The file has a heading and then a line for each swap area.
fn has_swap(swaps: &str) -> bool {
    swaps.lines().skip(1).any(|line| !line.trim().is_empty())
}

/// Whether this cgroup or one above it has a swap limit of none.
fn swap_forbidden(cgroup: &str, read: impl Fn(&Path) -> Option<String>) -> bool {
    let Some(path) = cgroup.lines().find_map(|line| line.strip_prefix("0::/")) else { return false };
    Path::new(path)
        .ancestors()
        .any(|folder| read(&folder.join("memory.swap.max")).is_some_and(|limit| limit.trim() == "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    fn check(cgroup: &str, limits: &[(&str, &str)]) -> bool {
        swap_forbidden(cgroup, |path| {
            let path = path.to_str()?;
            limits.iter().find(|(name, _)| *name == path).map(|(_, limit)| (*limit).to_owned())
        })
    }

    #[test]
    fn a_heading_alone_means_no_swap() {
        assert!(!has_swap(HEADING));
        assert!(has_swap(&format!("{HEADING}/dev/sda2 partition 1024 0 -2\n")));
    }

    #[test]
    fn a_limit_of_none_anywhere_above_forbids_swap() {
        assert!(check("0::/pods/a\n", &[("pods/a/memory.swap.max", "0\n")]));
        assert!(check(
            "0::/pods/a\n",
            &[("pods/memory.swap.max", "0\n"), ("pods/a/memory.swap.max", "max\n")]
        ));
    }

    #[test]
    fn an_unknown_or_open_limit_does_not() {
        assert!(!check("0::/pods/a\n", &[("pods/a/memory.swap.max", "max\n")]));
        assert!(!check("0::/pods/a\n", &[]));
        assert!(!check("3:memory:/pods/a\n", &[("pods/a/memory.swap.max", "0\n")]));
    }
}

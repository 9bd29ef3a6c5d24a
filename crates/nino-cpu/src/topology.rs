//! The NUMA nodes of this machine and which of them each thread belongs to. Sockets are nodes, too;
//! some have several.
//!
//! Memory lies on the node of the thread that first writes to it, so a thread that stays on its node
//! keeps its scratch and its share of the arena near. Where there is one node, nothing is done.

use std::path::Path;
use std::sync::Arc;

/// The CPUs of each node that this process may use; a node has at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topology {
    nodes: Vec<Vec<usize>>,
}

/// The CPUs that each thread of a pool stays on: all of its node. Empty where threads may run
/// anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(Arc<[Arc<[usize]>]>);

impl Topology {
    /// What Linux says of this machine; one node without CPUs elsewhere.
    pub(crate) fn of_this_machine() -> Topology {
        Topology::read(Path::new("/sys/devices/system/node"), allowed().as_deref())
    }

    /// Reads the system's folder of nodes. Nodes without CPUs are memory alone; CPUs that are not
    /// `allowed` belong to others.
    fn read(folder: &Path, allowed: Option<&[usize]>) -> Topology {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let numbered = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let number: usize = name.strip_prefix("node")?.parse().ok()?;
            let list = std::fs::read_to_string(entry.path().join("cpulist")).ok()?;
            let mut cpus = parse_list(&list)?;
            cpus.retain(|cpu| allowed.is_none_or(|allowed| allowed.contains(cpu)));
            (!cpus.is_empty()).then_some((number, cpus))
        });
        let mut numbered: Vec<(usize, Vec<usize>)> = numbered.collect();
        numbered.sort_unstable();
        Topology {
            nodes: numbered.into_iter().map(|(_, cpus)| cpus).collect(),
        }
    }

    /// Gives each of `threads` threads its node: one node for all where it has a CPU for each, else
    /// all nodes by their CPUs. Neighboring threads are on one node, because neighboring parts of
    /// the arena are first touched by neighboring threads.
    pub(crate) fn places(&self, threads: usize) -> Places {
        if self.nodes.len() < 2 {
            return Places::default();
        }
        // The first of the largest nodes.
        let largest = self
            .nodes
            .iter()
            .rev()
            .max_by_key(|cpus| cpus.len())
            .filter(|cpus| cpus.len() >= threads);
        if let Some(cpus) = largest {
            let cpus: Arc<[usize]> = Arc::from(&cpus[..]);
            return Places((0..threads).map(|_| Arc::clone(&cpus)).collect());
        }
        let all: usize = self.nodes.iter().map(Vec::len).sum();
        let mut places = Vec::with_capacity(threads);
        let mut before = 0;
        for cpus in &self.nodes {
            before += cpus.len();
            let cpus: Arc<[usize]> = Arc::from(&cpus[..]);
            places.resize(before * threads / all, cpus);
        }
        Places(places.into())
    }
}

impl Places {
    /// Keeps the calling thread, which is thread `index` of a pool, on its node. A system that
    /// refuses is obeyed: results do not depend on it.
    pub(crate) fn settle(&self, index: usize) {
        let Some(cpus) = self.0.get(index) else {
            return;
        };
        if !stay_on(cpus) {
            tracing::debug!("thread {index} cannot stay on the CPUs of its node");
        }
    }

    /// Whether threads have places.
    pub(crate) fn exist(&self) -> bool {
        !self.0.is_empty()
    }

    #[cfg(test)]
    fn cpus(&self, index: usize) -> &[usize] {
        &self.0[index]
    }
}

/// Reads a list such as `0-3,8,10-11`; nothing where it is none.
fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// CPUs that Linux's set can name.
const MOST_CPUS: usize = 1024;

/// The CPUs that this thread may run on; nothing where the system does not tell.
fn allowed() -> Option<Vec<usize>> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a set of zeros is an empty set, and the call fills it within its size.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let size = std::mem::size_of_val(&set);
            if libc::sched_getaffinity(0, size, &raw mut set) != 0 {
                return None;
            }
            set
        };
        // SAFETY: the number is below the set's size.
        let is_set = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
        Some((0..MOST_CPUS).filter(is_set).collect())
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Keeps the calling thread on these CPUs; whether the system agreed.
fn stay_on(cpus: &[usize]) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: a set of zeros is an empty set, numbers are below its size, and the system copies it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &raw const set) == 0
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = cpus;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::Threads;
    use std::sync::Mutex;

    /// A folder such as the system's, with these lists of CPUs.
    fn made_up(nodes: &[(usize, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (number, list) in nodes {
            let node = folder.path().join(format!("node{number}"));
            std::fs::create_dir(&node).unwrap();
            std::fs::write(node.join("cpulist"), format!("{list}\n")).unwrap();
        }
        std::fs::write(folder.path().join("online"), "0-1\n").unwrap();
        folder
    }

    fn counts(places: &Places, nodes: &[Vec<usize>]) -> Vec<usize> {
        let of = |cpus: &Vec<usize>| places.0.iter().filter(|p| p[..] == cpus[..]).count();
        nodes.iter().map(of).collect()
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(
            parse_list("0-3,8,10-11\n").unwrap(),
            [0, 1, 2, 3, 8, 10, 11]
        );
        assert_eq!(parse_list("\n").unwrap(), [0usize; 0]);
        assert_eq!(parse_list("0-x"), None);
        assert_eq!(parse_list("0-99999999999"), None);
    }

    #[test]
    fn a_pool_stays_on_one_node_where_it_fits() {
        let folder = made_up(&[(0, "0-7,16-23"), (1, "8-15,24-31"), (2, "")]);
        let topology = Topology::read(folder.path(), None);
        assert_eq!(topology.nodes.len(), 2);
        for threads in [1, 5, 16] {
            let places = topology.places(threads);
            assert_eq!(counts(&places, &topology.nodes), [threads, 0]);
        }
        let places = topology.places(24);
        assert_eq!(counts(&places, &topology.nodes), [12, 12]);
        assert_eq!(places.cpus(11), topology.nodes[0]);
        assert_eq!(places.cpus(12), topology.nodes[1]);
        assert_eq!(counts(&topology.places(40), &topology.nodes), [20, 20]);
    }

    #[test]
    fn only_what_the_process_may_use_counts() {
        let folder = made_up(&[(10, "4-7"), (2, "0-3")]);
        let allowed = [1, 4, 5, 6, 7];
        let topology = Topology::read(folder.path(), Some(&allowed));
        assert_eq!(topology.nodes, [vec![1], vec![4, 5, 6, 7]]);
        assert_eq!(counts(&topology.places(4), &topology.nodes), [0, 4]);
        assert_eq!(counts(&topology.places(5), &topology.nodes), [1, 4]);
        let one = Topology::read(folder.path(), Some(&[1, 2]));
        assert!(!one.places(2).exist());
        let none = Topology::read(Path::new("/nowhere"), None);
        assert!(!none.places(2).exist());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_stay_on_their_node() {
        let cpus = allowed().unwrap();
        if cpus.len() < 2 {
            println!("skipped: this process has one CPU");
            return;
        }
        let nodes = vec![vec![cpus[0]], vec![cpus[1]]];
        let topology = Topology { nodes };
        let threads = Threads::placed(4, topology.places(4));
        let seen = Mutex::new(vec![None; 4]);
        threads.broadcast(&|index| {
            seen.lock().unwrap()[index] = allowed();
        });
        let seen = seen.into_inner().unwrap();
        // The first is the caller, which is not the pool's to move.
        assert_eq!(seen[0].as_deref(), Some(&cpus[..]));
        assert_eq!(seen[1].as_deref(), Some(&cpus[..1]));
        assert_eq!(seen[2].as_deref(), Some(&cpus[1..2]));
        assert_eq!(seen[3].as_deref(), Some(&cpus[1..2]));
    }
}

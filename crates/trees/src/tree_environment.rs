//! The environment of a tree's nodes: processes of this host, network namespaces, or the ranks of a launcher.

use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;

use super::namespaces::NetworkNamespaces;
use client::Url;
use harness::launcher::ranks;
use harness::placement::CpuList;
use harness::role_handle::RoleHandle;
use harness::role_tasks::{BrokerLogin, ListenAddress};

/// The hosting that the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeHosting {
    /// Processes of this host, with brokers on this address.
    Local(IpAddr),
    /// A network namespace for each broker and each group of clients, with links of this many bits a second.
    Namespaces(Option<u64>),
    /// The ranks of a launcher, which meet at this broker.
    Ranks(String),
}

pub(super) struct TreeEnvironment {
    place: ListenAddress,
    /// The login of clients on other hosts.
    pub login: Option<BrokerLogin>,
    kind: EnvironmentKind,
    slots: Vec<String>,
}

enum EnvironmentKind {
    Local,
    Namespaces(NetworkNamespaces),
    Ranks(usize),
}

pub(super) struct NodeSlot {
    command_prefix: Vec<String>,
    rank: Option<usize>,
    /// The address at which a broker listens there.
    pub listen_at: ListenAddress,
}

impl TreeEnvironment {
    /// Prepares the environment.
    ///
    /// # Errors
    /// Why it is not available.
    pub fn prepare(hosting: &NodeHosting) -> Result<Self, String> {
        let (kind, place) = match hosting {
            NodeHosting::Local(address) => (EnvironmentKind::Local, ListenAddress::At(*address)),
            NodeHosting::Namespaces(bits_per_s) => (
                EnvironmentKind::Namespaces(NetworkNamespaces::new(*bits_per_s)?),
                ListenAddress::At(Ipv4Addr::UNSPECIFIED.into()),
            ),
            NodeHosting::Ranks(url) => {
                let address = Url::parse(url).map_err(|error| error.to_string())?.address;
                (EnvironmentKind::Ranks(ranks()?), ListenAddress::Towards(address))
            }
        };
        let is_far = !matches!(&place, ListenAddress::At(address) if address.is_loopback());
        let login = is_far.then(login).transpose()?;
        Ok(Self { place, login, kind, slots: Vec::new() })
    }

    /// Allocates a slot for one more node.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn allocate(&mut self, label: &str) -> Result<NodeSlot, String> {
        let number = self.slots.len();
        self.slots.push(label.to_owned());
        let slot = NodeSlot { command_prefix: Vec::new(), rank: None, listen_at: self.place.clone() };
        Ok(match &mut self.kind {
            EnvironmentKind::Local => slot,
            EnvironmentKind::Namespaces(namespaces) => {
                let host = namespaces.add(label)?;
                NodeSlot { command_prefix: host.command_prefix(), listen_at: ListenAddress::At(host.address), ..slot }
            }
            EnvironmentKind::Ranks(ranks) => NodeSlot { rank: Some(rank_of(number, *ranks)), ..slot },
        })
    }
}

impl TreeEnvironment {
    /// Which rank has which nodes, if there are ranks.
    pub fn describe_ranks(&self) -> Option<String> {
        let EnvironmentKind::Ranks(ranks) = self.kind else { return None };
        let of = |rank: usize| {
            let slots = self.slots.iter().enumerate().filter(|(number, _)| rank_of(*number, ranks) == rank);
            let labels: Vec<&str> = slots.map(|(_, label)| label.as_str()).collect();
            (!labels.is_empty()).then(|| format!("rank {rank}: {}", labels.join(" ")))
        };
        Some((1..ranks).filter_map(of).collect::<Vec<_>>().join("; "))
    }
}

/// Rank 0 controls; the others get nodes in turn.
fn rank_of(number: usize, ranks: usize) -> usize {
    1 + number % ranks.saturating_sub(1).max(1)
}

/// A user for this run alone.
fn login() -> Result<BrokerLogin, String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes))
        .map_err(|error| format!("/dev/urandom: {error}"))?;
    Ok(BrokerLogin { user: "topology".to_owned(), password: bytes.iter().map(|byte| format!("{byte:02x}")).collect() })
}

impl NodeSlot {
    /// Starts a role there.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start<T: Serialize>(&self, kind: &str, task: &T) -> Result<RoleHandle, String> {
        match (self.rank, self.command_prefix.as_slice()) {
            (Some(rank), _) => RoleHandle::start_on(rank, kind, task),
            (None, []) => RoleHandle::start(kind, task, &CpuList::default()),
            (None, within) => RoleHandle::start_within(within, kind, task),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_take_nodes_in_turns() {
        assert_eq!([0, 1, 2, 3, 4].map(|number| rank_of(number, 4)), [1, 2, 3, 1, 2]);
        assert_eq!([0, 1].map(|number| rank_of(number, 2)), [1, 1]);
    }

    #[test]
    fn who_comes_from_elsewhere_needs_a_password() {
        let here =
            TreeEnvironment::prepare(&NodeHosting::Local(Ipv4Addr::LOCALHOST.into())).expect("nothing is needed");
        assert_eq!(here.login, None);
        let far = TreeEnvironment::prepare(&NodeHosting::Local(Ipv4Addr::new(192, 0, 2, 1).into()))
            .expect("nothing is needed yet");
        assert!(far.login.is_some_and(|login| login.password.len() == 32));
    }
}

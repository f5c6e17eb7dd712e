//! Faults: slow clients and connections, connections that are cut or become silent, dials and logins that fail.
//!
//! Which of them a run has is drawn with its settings; when they occur is drawn here.

use crate::schedule::Workload;
use crate::settings::FaultSettings;
use crate::simulated_client::{ClientRole, SimulatedClient};
use crate::trace::Trace;
use crate::world::SimulatedWorld;
use link::sim::{SimConnection, SimCut, SimSide};
use splitmix::SplitMix64;
use std::time::Instant;

/// A connection over which nothing passes any more, and whose ends have not been told.
struct SilentConnection {
    cable: SimConnection,
    name: String,
    since: Instant,
}

/// The faults of a run.
pub struct Faults {
    /// No dial fails now, because the world is to come to rest.
    pub is_suspended: bool,
    settings: FaultSettings,
    silent: Vec<SilentConnection>,
}

impl Faults {
    /// None yet.
    pub fn new(settings: FaultSettings) -> Self {
        Faults { is_suspended: false, settings, silent: Vec::new() }
    }

    /// Whether a dial fails.
    pub fn draw_dial_failure(&self, chance: &mut SplitMix64) -> bool {
        !self.is_suspended && self.settings.link_cuts && chance.permille(200)
    }

    /// Whether a dial that fails is refused by the other broker.
    pub fn draw_dial_refusal(&self, chance: &mut SplitMix64) -> bool {
        !self.is_suspended && self.settings.refusals && chance.permille(200)
    }

    /// Whether a broker refuses the login of another.
    pub fn draw_login_refusal(&self, chance: &mut SplitMix64) -> bool {
        !self.is_suspended && self.settings.refusals && chance.permille(50)
    }

    /// A client may become slow, or fast again.
    pub fn draw_slow_client(&self, client: &mut SimulatedClient, chance: &mut SplitMix64) {
        if !self.settings.slow || !chance.permille(20) {
            return;
        }
        let roll = chance.below(4);
        let pace = chance.between(1, 200) as usize;
        match roll {
            0 => client.connection.paused = true,
            1 => client.cable.limit_rate(SimSide::Left, Some(pace)),
            2 => client.cable.limit_rate(SimSide::Right, Some(pace)),
            _ => client.release(),
        }
    }

    /// Whether the connection of a client is to be cut now.
    pub fn draw_client_cut(&self, chance: &mut SplitMix64) -> bool {
        chance.permille(if self.settings.client_cuts { 4 } else { 0 })
    }

    /// Cuts the connection of a client in one of several ways. Returns whether the client itself has dropped it.
    pub fn cut_client(&self, client: &mut SimulatedClient, chance: &mut SplitMix64, trace: &mut Trace) -> bool {
        let (uid, cable) = (client.uid, &client.cable);
        client.cut = true;
        let bytes = chance.below(2_000);
        let roll = chance.below(6);
        trace.note(|| format!("client {uid} is cut ({roll}), perhaps after {bytes} bytes"));
        match roll {
            // In the middle of any frame; the client notices as the broker does.
            0 => cable.cut_after(SimSide::Left, bytes, SimCut::Reset),
            1 => cable.cut_after(SimSide::Right, bytes, SimCut::Reset),
            2 => client.connection.drop_link(),
            3 if self.settings.silences => {
                cable.cut(SimCut::Silence);
                client.connection.paused = true;
            }
            4 => {
                cable.cut(SimCut::Vanish(SimSide::Left));
                client.connection.drop_link();
            }
            _ => cable.cut(SimCut::Reset),
        }
        roll == 2 || roll == 4 || roll == 3 && self.settings.silences
    }

    /// Cuts the connection of a client as soon as the broker has read everything that the client has sent.
    pub fn cut_client_after_output(client: &mut SimulatedClient) {
        client.cut = true;
        let bytes = client.connection.out.bytes() + client.cable.unread_bytes(SimSide::Right);
        client.cable.cut_after(SimSide::Left, bytes as u64, SimCut::Reset);
    }

    /// Makes a connection silent.
    fn silence(&mut self, cable: SimConnection, name: String, since: Instant) {
        cable.cut(SimCut::Silence);
        self.silent.push(SilentConnection { cable, name, since });
    }

    /// A silent connection whose ends have not both noticed, in words.
    pub fn unnoticed_silence(&mut self, now: Instant) -> Option<String> {
        self.silent.retain(|one| !one.cable.is_closed(SimSide::Left) || !one.cable.is_closed(SimSide::Right));
        let SilentConnection { name, since, .. } = self.silent.first()?;
        Some(format!("{name} has been silent for {:?}, and one end has not noticed;", now.duration_since(*since)))
    }

    /// Connections between brokers and of clients may break.
    pub fn draw_cuts<W: Workload>(world: &mut SimulatedWorld, workload: &mut W) {
        let settings = world.settings.faults;
        if settings.link_cuts && world.chance.permille(15) && !world.links.open.is_empty() {
            let link = world.chance.below(world.links.open.len() as u64) as usize;
            Faults::cut_link(world, link, workload);
        }
        if settings.silences && world.chance.permille(8) && !world.links.open.is_empty() {
            let link = world.chance.below(world.links.open.len() as u64) as usize;
            Faults::silence_link(world, link, workload);
        }
        if settings.client_cuts && world.chance.permille(8) {
            let broker = world.chance.below(world.brokers.len() as u64) as usize;
            let role = if world.chance.permille(400) { ClientRole::Publisher } else { ClientRole::Consumer };
            Faults::cut_client_by_role(world, broker, role, workload);
        }
    }

    /// A link or a consumer may become slow, or fast again.
    pub fn draw_slowness(world: &mut SimulatedWorld) {
        if !world.settings.faults.slow || !world.chance.permille(40) {
            return;
        }
        let pace = [None, Some(0), Some(1), Some(100)][world.chance.below(4) as usize];
        let side = if world.chance.permille(500) { SimSide::Left } else { SimSide::Right };
        if world.chance.permille(700) && !world.links.open.is_empty() {
            let link = world.chance.below(world.links.open.len() as u64) as usize;
            world.links.open[link].cable.limit_rate(side, pace);
            return;
        }
        let broker = world.chance.below(world.brokers.len() as u64) as usize;
        if let Some(client) = world.client_by_role(broker, ClientRole::Consumer) {
            world.clients[client].connection.paused = pace.is_some();
        }
    }

    /// Links that are to be cut after some more bytes are cut now.
    pub fn cut_marked_links(world: &mut SimulatedWorld) {
        let marked = world.links.open.iter().filter(|link| link.is_marked_cut);
        marked.for_each(|link| link.cable.cut(SimCut::Reset));
    }

    fn cut_link<W: Workload>(world: &mut SimulatedWorld, link: usize, workload: &mut W) {
        let link = &mut world.links.open[link];
        let [one, other] = link.ends;
        if world.chance.permille(500) {
            link.cable.cut(SimCut::Reset);
        } else {
            let from = if world.chance.permille(500) { SimSide::Left } else { SimSide::Right };
            let bytes = world.chance.below(2_000);
            link.cable.cut_after(from, bytes, SimCut::Reset);
            link.is_marked_cut = true;
        }
        world.trace.note(|| format!("the link of b{} to b{} is cut", one.broker, other.broker));
        world.tally.link_cuts += 1;
        workload.on_link_lost(one.broker, other.broker);
    }

    fn silence_link<W: Workload>(world: &mut SimulatedWorld, link: usize, workload: &mut W) {
        let link = &world.links.open[link];
        let [one, other] = link.ends;
        let name = format!("the link of b{} to b{}", one.broker, other.broker);
        world.trace.note(|| format!("{name} becomes silent"));
        world.tally.silences += 1;
        world.faults.silence(link.cable.clone(), name, world.clock.now);
        workload.on_link_lost(one.broker, other.broker);
    }

    /// Cuts the connection of a client whose channel is open, and tells the workload.
    fn cut_client_by_role<W: Workload>(world: &mut SimulatedWorld, broker: usize, role: ClientRole, workload: &mut W) {
        let is_silent = world.settings.faults.silences && world.chance.permille(300);
        let cut = [SimCut::Reset, SimCut::Vanish(SimSide::Left)][world.chance.below(2) as usize];
        let client = world.client_by_role(broker, role).filter(|&client| world.clients[client].has_open_channel());
        let Some(client) = client else { return };
        let mut client = world.clients.remove(client);
        let name = format!("the connection of the {} of b{broker}", role.name());
        world.trace.note(|| format!("{name} {}", if is_silent { "becomes silent" } else { "is cut" }));
        world.tally.client_cuts += 1;
        if is_silent {
            world.faults.silence(client.cable.clone(), name, world.clock.now);
        } else {
            client.cable.cut(cut);
        }
        client.connection.drop_link();
        workload.on_client_lost(world, client);
    }
}

#[cfg(test)]
mod tests {
    use super::Faults;
    use crate::settings::{FaultSettings, Mode, Settings};
    use crate::simulated_client::ClientRole;
    use crate::world::SimulatedWorld;
    use splitmix::SplitMix64;

    #[test]
    fn faults_that_a_run_does_not_have_are_never_drawn() {
        let (faults, mut chance) = (Faults::new(FaultSettings::default()), SplitMix64::new(1));
        for _ in 0..1_000 {
            assert!(!faults.draw_dial_failure(&mut chance) && !faults.draw_dial_refusal(&mut chance));
            assert!(!faults.draw_login_refusal(&mut chance) && !faults.draw_client_cut(&mut chance));
        }
    }

    #[test]
    fn suspended_faults_let_every_dial_succeed() {
        let settings = FaultSettings { link_cuts: true, refusals: true, ..FaultSettings::default() };
        let mut faults = Faults::new(settings);
        let mut chance = SplitMix64::new(1);
        assert!((0..1_000).any(|_| faults.draw_dial_failure(&mut chance)));
        faults.is_suspended = true;
        assert!((0..1_000).all(|_| !faults.draw_dial_failure(&mut chance) && !faults.draw_login_refusal(&mut chance)));
    }

    #[test]
    fn a_silent_connection_is_noticed_when_both_ends_are_over() {
        let mut world = SimulatedWorld::new(Settings::of(Mode::Features, 1), false);
        let client = world.connect(0, ClientRole::Any);
        let (cable, now) = (world.clients[client].cable.clone(), world.clock.now);
        world.faults.silence(cable, "it".into(), now);
        assert!(world.faults.unnoticed_silence(now).is_some_and(|what| what.starts_with("it has been silent")));
        world.clients.clear();
        assert!(world.faults.unnoticed_silence(now).is_some(), "the broker has not noticed");
        world.brokers.clear();
        assert_eq!(world.faults.unnoticed_silence(now), None);
    }
}

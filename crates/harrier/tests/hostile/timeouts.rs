//! Peers that keep the protocol but do nothing: the broker's time-outs disconnect them. All run at once, because each
//! takes its time.

use super::amqp::{Talk, begin_publish};
use super::broker::{WatchedBroker, pause};
use super::format::{PeerHello, RENDEZVOUS, RendezvousOffer};
use super::honest::HonestClients;
use super::peer::HostilePeer;
use super::{PATIENCE, lab, now, port};
use ib::WcStatus;

#[test]
fn who_makes_the_broker_wait_is_given_up_and_what_it_held_returns() {
    let Some(ip) = lab() else { return };
    // Another test beside this one waits as long for its token.
    let settings =
        ["--rdma-token", "allow", "--rdma-fetch-timeout-s", "4", "--rdma-silence-s", "30", "--login-timeout-s", "6"];
    let mut broker = WatchedBroker::start(ip, port(), &settings);
    let mut honest = HonestClients::new(broker.address);
    let before = broker.holdings();
    let address = broker.address;
    let connect = |hello: &PeerHello| HostilePeer::connect(address, hello).expect("there is room");

    // Honest clients stay active meanwhile; otherwise they would be disconnected as well.
    // This peer never sends DONE, and never reads.
    honest.enqueue("bait", 70_000);
    let mut never_done = connect(&PeerHello::default());
    Talk::open(&mut never_done);
    Talk::consume(&mut never_done, "bait");
    let offer = RendezvousOffer::read(&never_done.next(RENDEZVOUS, "an offer").payload);
    honest.exchange("while others come");
    // It has logged in and then stays silent, even to pings.
    let mut silent = connect(&PeerHello::default());
    Talk::open(&mut silent);
    honest.exchange("while others come");
    // It sends nothing but answers to pings.
    let mut mute = connect(&PeerHello::default());
    // It is told that its protocol is not AMQP, and stays.
    let mut stays = connect(&PeerHello::default());
    stays.stream(b"GET / HTTP/1.1\r\n\r\n");
    honest.exchange("while others come");
    // It has read foreign memory, so that its queue pair is in error, and stays.
    honest.enqueue("sink", 70_000);
    let mut stuck = connect(&PeerHello::default());
    Talk::open(&mut stuck);
    Talk::consume(&mut stuck, "sink");
    let own = RendezvousOffer::read(&stuck.next(RENDEZVOUS, "an offer").payload);
    assert_eq!(stuck.read(own.address - 1, 1, own.key), WcStatus::REMOTE_ACCESS);
    honest.exchange("while others come");
    // It never lets the broker read its offer.
    let mut unreadable = connect(&PeerHello { reads_answered: 0, ..PeerHello::default() });
    Talk::open(&mut unreadable);
    unreadable.stream(&begin_publish("nowhere", 128 << 10, 100_000));
    let own = unreadable.lend(&[7; 100_000]);
    unreadable.offer(100_000, own.address, own.key);

    let began = now();
    while ![&never_done, &silent, &mute, &stays, &stuck, &unreadable].iter().all(|peer| peer.is_gone()) {
        never_done.answer_pings();
        mute.answer_pings();
        unreadable.answer_pings();
        [&mut silent, &mut stays, &mut stuck].into_iter().for_each(HostilePeer::poll);
        honest.exchange("while others make the broker wait");
        assert!(now() < began + 2 * PATIENCE, "not all of them were given up");
        pause();
    }
    for (peer, words) in [(&mut never_done, "did not read an offer in time"), (&mut silent, "nothing was received")] {
        let told = peer.ends();
        assert!(told.contains(words), "{words}: it is told {told:?}");
    }
    // A peer that blocks the READ receives no message, not even a ping, because the READ is ahead of it. Only the log
    // tells.
    broker.await_line("did not read an offer in time");
    broker.await_line("nothing was received from the peer");
    drop((never_done, silent, mute, stays, stuck, unreadable));

    // Too late: another connection cannot use the key.
    let mut other = connect(&PeerHello::default());
    assert_eq!(other.read(offer.address, 100, offer.key), WcStatus::REMOTE_ACCESS);
    drop(other);
    honest.exchange("afterwards");
    honest.clear();
    broker.is_as_before(&before, "peers that were waited for", Some(&mut honest));
    drop(honest);
    broker.stop();
}

//! Both ends of a connection within the process.

use crate::link::Link;
use crate::peer::PeerAddress;
use crate::socket::SocketLink;
use std::io;
use std::os::unix::net::UnixStream;

/// Two connected links over sockets that have no address; `near` and `far` are what each is called.
///
/// # Errors
/// The system refuses sockets: the process has no descriptors left.
pub fn socket_pair(near: &str, far: &str) -> io::Result<(Box<dyn Link>, Box<dyn Link>)> {
    let (near_end, far_end) = UnixStream::pair()?;
    Ok((
        Box::new(SocketLink::new(near_end, PeerAddress::in_process(far, near))?),
        Box::new(SocketLink::new(far_end, PeerAddress::in_process(near, far))?),
    ))
}

#[cfg(test)]
mod tests {
    use super::socket_pair;
    use crate::contract::check_all;

    #[test]
    fn a_socket_pair_keeps_the_contract_of_links() {
        check_all(|| socket_pair("one", "other").expect("there are descriptors"));
    }

    #[test]
    fn each_end_knows_what_the_other_is_called() {
        let (near, far) = socket_pair("one", "other").expect("there are descriptors");
        assert_eq!((&*near.peer().address, &*near.peer().local_address), ("other", "one"));
        assert_eq!((&*far.peer().address, &*far.peer().local_address), ("one", "other"));
        assert!(near.peer().is_loopback && far.peer().is_loopback);
    }
}

//! What an answer over HTTP costs that nobody works for: a thread that is asleep, a socket, and as many bytes.
//!
//! On processors that are all busy a thread that wakes up waits its turn. That wait is in every answer of a broker, and in this
//! floor.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use super::http_observer::HttpOrigins;

/// No request that is made here has more bytes of a head.
const HEAD_BYTES_MAX: usize = 4096;

/// A thread that gives every request of one connection after another the same answer.
pub(super) struct HttpFloor {
    address: SocketAddr,
    thread: JoinHandle<Result<(), String>>,
}

impl HttpFloor {
    /// Starts to answer with a body of so many bytes.
    pub fn start(body_bytes: usize) -> Result<Self, String> {
        let failed = |error| format!("the floor of HTTP: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let answer = [
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {body_bytes}\r\n\r\n").into_bytes(),
            vec![b'a'; body_bytes],
        ]
        .concat();
        let serve = move || {
            while serve_connection(&listener, &answer).map_err(failed)? {}
            Ok(())
        };
        let thread = std::thread::Builder::new().name("floor".to_owned()).spawn(serve).map_err(failed)?;
        Ok(Self { address, thread })
    }

    pub fn origins(&self) -> HttpOrigins {
        HttpOrigins::of_one(self.address)
    }

    /// Ends the thread, once those who ask have closed their connections.
    pub fn finish(self) -> Result<(), String> {
        // A connection that asks for nothing is the last one.
        drop(TcpStream::connect(self.address).map_err(|error| format!("the floor of HTTP: {error}"))?);
        self.thread.join().map_err(|_panicked| "the floor of HTTP has panicked".to_owned())?
    }
}

/// Answers the next connection until its peer closes it. False if it has asked for nothing.
fn serve_connection(listener: &TcpListener, answer: &[u8]) -> std::io::Result<bool> {
    let mut connection = listener.accept()?.0;
    connection.set_nodelay(true)?;
    let (mut head, mut filled, mut has_asked) = ([0; HEAD_BYTES_MAX], 0, false);
    loop {
        let received = connection.read(&mut head[filled..])?;
        if received == 0 {
            // An end in the middle of a head, or one without an end.
            return if filled == 0 { Ok(has_asked) } else { Err(ErrorKind::InvalidData.into()) };
        }
        filled += received;
        // A request has no body here, and the next one comes after its answer.
        if head[..filled].ends_with(b"\r\n\r\n") {
            connection.write_all(answer)?;
            (filled, has_asked) = (0, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::http_observer::{HttpObserver, ask};
    use std::time::Duration;

    #[test]
    fn every_request_has_the_same_answer_and_the_thread_ends() {
        let floor = HttpFloor::start(100_000).expect("a listener");
        assert_eq!(ask(&floor.origins(), "/metrics").expect("an answer").len(), 100_000);
        let asking =
            HttpObserver::start(&floor.origins(), |_| &["/metrics", "/api"], Duration::ZERO).expect("a thread");
        assert!(asking.finish().expect("answers").len() >= 2);
        floor.finish().expect("an end");
    }

    #[test]
    fn what_is_no_request_ends_the_thread_with_an_error() {
        let floor = HttpFloor::start(1).expect("a listener");
        let mut client = TcpStream::connect(floor.address).expect("connects");
        client.write_all(b"GET").expect("sent");
        drop(client);
        floor.thread.join().expect("no panic").expect_err("an error");
    }
}

//! The body of an answer as bytes of HTTP: whole, or in pieces that are made when the client has taken those before; compressed
//! if the client asked for it.

use crate::answer::AnswerBody;
use crate::api::SharedRequestCounts;
use crate::limits::COMPRESSED_BYTES_MIN;
use crate::metrics_stream::MetricsStream;
use crate::row_list::RowList;
use crate::source::Source;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Frame, SizeHint};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

/// The source of all connections of the thread.
pub type SharedSource = Rc<RefCell<Box<dyn Source>>>;

/// One of the few answers that may be long; counted while it is there.
pub struct LongAnswerPermit(Rc<Cell<usize>>);

impl LongAnswerPermit {
    /// One more, unless there are as many as may be.
    pub fn take(count: &Rc<Cell<usize>>, max: usize) -> Option<Self> {
        if count.get() >= max {
            return None;
        }
        count.set(count.get() + 1);
        Some(Self(Rc::clone(count)))
    }
}

impl Drop for LongAnswerPermit {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

enum Pieces {
    Rows(Box<RowList>),
    Metrics(Box<MetricsStream>),
}

impl Pieces {
    fn next(&mut self, source: &dyn Source) -> Option<Vec<u8>> {
        match self {
            Pieces::Rows(rows) => rows.next_piece(source),
            Pieces::Metrics(metrics) => metrics.next_piece(source),
        }
    }
}

/// What counts the time in which the text of metrics is made.
#[derive(Clone)]
pub struct ScrapeTimer {
    pub requests: SharedRequestCounts,
    pub clock: fn() -> Instant,
}

struct Stream {
    source: SharedSource,
    pieces: Pieces,
    encoder: Option<GzEncoder<Vec<u8>>>,
    scrape: Option<ScrapeTimer>,
    _permit: Option<LongAnswerPermit>,
}

impl Stream {
    /// The next bytes; `None` behind the last ones.
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let began = self.scrape.as_ref().map(|scrape| (scrape.clock)());
            let piece = self.pieces.next(&**self.source.borrow());
            if let Some((scrape, began)) = self.scrape.as_ref().zip(began) {
                scrape.requests.borrow_mut().scrape_time += (scrape.clock)().saturating_duration_since(began);
            }
            match (piece, self.encoder.as_mut()) {
                (piece, None) => return piece,
                (Some(piece), Some(encoder)) => {
                    encoder.write_all(&piece).expect("a buffer takes what is written");
                    // What the encoder holds back comes with a later piece.
                    let bytes = std::mem::take(encoder.get_mut());
                    if !bytes.is_empty() {
                        return Some(bytes);
                    }
                }
                (None, Some(_)) => {
                    let encoder = self.encoder.take()?;
                    return Some(encoder.finish().expect("a buffer takes what is written"));
                }
            }
        }
    }
}

enum State {
    Whole(Bytes),
    Stream(Box<Stream>),
    Done,
}

/// The body.
pub struct AnswerBytes(State);

impl AnswerBytes {
    /// Of an answer's body. Returns whether it is compressed.
    pub fn new(
        body: AnswerBody,
        source: &SharedSource,
        is_gzip: bool,
        permit: Option<LongAnswerPermit>,
        scrape: &ScrapeTimer,
    ) -> (Self, bool) {
        let pieces = match body {
            AnswerBody::Empty => return (Self(State::Done), false),
            AnswerBody::Text(text) if is_gzip && text.len() >= COMPRESSED_BYTES_MIN => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&text).expect("a buffer takes what is written");
                let text = encoder.finish().expect("a buffer takes what is written");
                return (Self(State::Whole(text.into())), true);
            }
            AnswerBody::Text(text) => return (Self(State::Whole(text.into())), false),
            AnswerBody::Rows(rows) => Pieces::Rows(rows),
            AnswerBody::Metrics(metrics) => Pieces::Metrics(metrics),
        };
        let encoder = is_gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
        let scrape = matches!(pieces, Pieces::Metrics(_)).then(|| scrape.clone());
        scrape.iter().for_each(|scrape| scrape.requests.borrow_mut().scrapes += 1);
        let stream = Stream { source: Rc::clone(source), pieces, encoder, scrape, _permit: permit };
        (Self(State::Stream(Box::new(stream))), is_gzip)
    }
}

impl Body for AnswerBytes {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut self.0 {
            State::Done => None,
            State::Whole(bytes) => Some(std::mem::take(bytes)),
            State::Stream(stream) => stream.next().map(Bytes::from),
        };
        if !matches!((&self.0, &bytes), (State::Stream(_), Some(_))) {
            self.0 = State::Done;
        }
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, State::Done)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Done => SizeHint::with_exact(0),
            State::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            State::Stream(_) => SizeHint::default(),
        }
    }
}

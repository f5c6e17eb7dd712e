//! A list on its way out: which rows, and their text piece by piece.
//!
//! Enters: rows by their ids.  Leaves: pieces of JSON, each made when the one before it has gone.
//! Owns:   ids and no text: a client that reads slowly holds no copy of what it has yet to read. A row that is gone by then is
//!         left out. What has no id that lasts (connections, channels, consumers) is made text when its page is cut out.

use crate::api_error::ApiError;
use crate::definition_views;
use crate::limits::{LIST_SAMPLES_MAX, ROWS_A_PIECE, ROWS_PIECE_BYTES, SAMPLED_ROWS_MAX, SORTED_ROWS_MAX};
use crate::list_request::{ListRequest, PagePlace};
use crate::live::LiveChannel;
use crate::live_views;
use crate::query::Columns;
use crate::queue_view::{self, QueueDetail};
use crate::sample_range::SampleRanges;
use crate::sampled_object::SampledObject;
use crate::source::Source;
use crate::statistics_history::SharedHistory;
use catalog::{BindingPlace, ExchangeId, QueueId, VhostId};
use definitions::Json;
use std::borrow::Cow;
use std::io::Write;
use std::rc::Rc;

/// A row of a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    Queue(QueueId, QueueDetail),
    Exchange(ExchangeId),
    Vhost(VhostId),
    Binding(BindingPlace),
    /// The binding of a queue to the default exchange.
    DefaultBinding(QueueId),
    /// The connection, channel or consumer at a place of the source's list: it holds until the source is refreshed, and is made
    /// an object before that.
    Connection(usize),
    Channel(usize),
    Consumer(usize),
    /// One that is an object already: of what there is little.
    Ready(Json),
}

impl Row {
    /// The row as an object, unless it is gone.
    pub fn render(&self, source: &dyn Source) -> Option<Json> {
        match self {
            Row::Queue(id, detail) => queue_view::queue(source, *id, *detail),
            Row::Exchange(id) => definition_views::exchange(source, *id),
            Row::Vhost(id) => source.catalog().is_vhost(*id).then(|| definition_views::vhost(source, *id)),
            Row::Binding(place) => {
                let (view, _) = source.catalog().binding_at(*place)?;
                definition_views::binding(source, &view?)
            }
            Row::DefaultBinding(id) => definition_views::default_binding(source, *id),
            Row::Connection(at) => Some(live_views::connection(source, source.connections().get(*at)?)),
            Row::Channel(at) => Some(live_views::channel(source, source.channels().get(*at)?)),
            Row::Consumer(at) => live_views::consumer(source, source.consumers().get(*at)?),
            Row::Ready(object) => Some(object.clone()),
        }
    }

    /// The name by which lists are filtered.
    fn name<'a>(&'a self, source: &'a dyn Source) -> Cow<'a, str> {
        let catalog = source.catalog();
        let name: &str = match self {
            Row::Queue(id, _) => catalog.queue_definition(*id).map_or("", |queue| &queue.name),
            Row::Exchange(id) => catalog.exchange_info(*id).map_or("", |exchange| &exchange.name),
            Row::Vhost(id) => catalog.vhost_name(*id),
            Row::Connection(at) => source.connections().get(*at).map_or("", |of| &of.name),
            Row::Channel(at) => return source.channels().get(*at).map_or_else(String::new, LiveChannel::name).into(),
            Row::Binding(_) | Row::DefaultBinding(_) | Row::Consumer(_) => "",
            Row::Ready(object) => match object.get("name") {
                Some(Json::Text(name)) => name,
                _ => "",
            },
        };
        name.into()
    }

    /// What has a past of which the row may have samples.
    fn sampled(&self, source: &dyn Source) -> Option<SampledObject> {
        match self {
            Row::Queue(id, QueueDetail::Full) => Some(SampledObject::Queue(*id)),
            Row::Exchange(id) => Some(SampledObject::Exchange(*id)),
            Row::Vhost(id) => Some(SampledObject::Vhost(*id)),
            Row::Connection(at) => Some(SampledObject::Connection(source.connections().get(*at)?.name.clone())),
            Row::Channel(at) => {
                let channel = source.channels().get(*at)?;
                Some(SampledObject::Channel(channel.connection.clone(), channel.number))
            }
            Row::Queue(..) | Row::Binding(_) | Row::DefaultBinding(_) | Row::Consumer(_) | Row::Ready(_) => None,
        }
    }

    /// The row in a form that stays when the source is refreshed; nothing if it is gone already.
    fn settled(self, source: &dyn Source) -> Option<Self> {
        match self {
            Row::Connection(_) | Row::Channel(_) | Row::Consumer(_) => self.render(source).map(Row::Ready),
            row => Some(row),
        }
    }
}

/// The past of the objects of a list, and how much of it is wanted.
#[derive(Debug)]
struct ListPast {
    history: SharedHistory,
    ranges: SampleRanges,
}

/// The rows that are yet to be written.
#[derive(Debug)]
pub struct RowList {
    /// Each with what it has samples of.
    rows: std::vec::IntoIter<(Row, Option<SampledObject>)>,
    past: Option<ListPast>,
    columns: Columns,
    place: Option<PagePlace>,
    has_begun: bool,
    has_rows: bool,
}

impl RowList {
    /// Filters, sorts and cuts a page out, as a client asks; the rows that are left have samples of those ranges.
    ///
    /// # Errors
    /// The page is beyond the end, or there are too many rows to sort or for samples.
    pub fn new(
        source: &dyn Source,
        mut rows: Vec<Row>,
        request: &ListRequest,
        history: &SharedHistory,
        ranges: SampleRanges,
    ) -> Result<Self, ApiError> {
        let total = rows.len();
        rows.retain(|row| request.filter.takes(&row.name(source)));
        if request.sort.is_some() {
            if rows.len() > SORTED_ROWS_MAX {
                let reason = format!("{} rows are too many to sort by a field; filter them by name", rows.len());
                return Err(ApiError::bad_request(reason));
            }
            let keyed = rows.into_iter().filter_map(|row| Some((request.key(&row.render(source)?), row)));
            let mut keyed: Vec<(Json, Row)> = keyed.collect();
            request.sort(&mut keyed);
            rows = keyed.into_iter().map(|(_, row)| row).collect();
        } else if request.is_reverse {
            rows.reverse();
        }
        let place = request.page.map(|page| page.place(total, rows.len())).transpose()?;
        if let Some(place) = &place {
            rows = rows.split_off(place.begin().min(rows.len()));
            rows.truncate(place.items);
        }
        let has_past = !ranges.is_none() && rows.iter().any(|row| row.sampled(source).is_some());
        if has_past {
            check_samples(rows.len(), ranges.samples())?;
        }
        let sampled = |row: &Row| row.sampled(source).filter(|_| has_past);
        let with_object = rows.into_iter().filter_map(|row| Some((sampled(&row), row.settled(source)?)));
        let rows: Vec<_> = with_object.map(|(object, row)| (row, object)).collect();
        let past = has_past.then(|| {
            let objects: Vec<SampledObject> = rows.iter().filter_map(|(_, object)| object.clone()).collect();
            history.borrow_mut().look(source, &objects);
            ListPast { history: Rc::clone(history), ranges }
        });
        let columns = request.columns.clone();
        Ok(Self { rows: rows.into_iter(), past, columns, place, has_begun: false, has_rows: false })
    }

    /// Rows that are yet to be written.
    pub(crate) fn rows_left(&self) -> usize {
        self.rows.len()
    }

    /// The next piece of text; `None` behind the last one.
    pub fn next_piece(&mut self, source: &dyn Source) -> Option<Vec<u8>> {
        if self.has_begun && self.rows.len() == 0 {
            return None;
        }
        let mut piece = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            match &self.place {
                None => piece.push(b'['),
                Some(place) => {
                    piece.push(b'{');
                    for (key, value) in place.fields() {
                        write!(piece, "\"{key}\":{value},").expect("a buffer takes what is written");
                    }
                    piece.extend_from_slice(b"\"items\":[");
                }
            }
        }
        for _ in 0..ROWS_A_PIECE {
            let Some((row, sampled)) = self.rows.next() else { break };
            let Some(mut object) = row.render(source) else { continue };
            if let (Some(past), Some(sampled)) = (&self.past, sampled) {
                object = past.history.borrow().add_samples(object, &sampled, &past.ranges);
            }
            if std::mem::replace(&mut self.has_rows, true) {
                piece.push(b',');
            }
            piece.extend_from_slice(self.columns.select(object).line().as_bytes());
            if piece.len() >= ROWS_PIECE_BYTES {
                break;
            }
        }
        if self.rows.len() == 0 {
            piece.extend_from_slice(if self.place.is_some() { b"]}" } else { b"]" });
        }
        Some(piece)
    }
}

/// Whether so many rows may have so many samples each.
fn check_samples(rows: usize, samples: u64) -> Result<(), ApiError> {
    if rows > SAMPLED_ROWS_MAX {
        let reason = format!("{rows} rows with samples are too many: {SAMPLED_ROWS_MAX} are the most; ask for a page");
        return Err(ApiError::bad_request(reason));
    }
    let all = samples.saturating_mul(rows as u64);
    if all > LIST_SAMPLES_MAX {
        let reason = format!(
            "{rows} rows with {samples} samples each are too many: {LIST_SAMPLES_MAX} samples are the most in a list; ask \
             for a smaller page, or for larger steps"
        );
        return Err(ApiError::bad_request(reason));
    }
    Ok(())
}

//! A list on its way out: which rows, and their text piece by piece.
//!
//! Enters: rows by their ids.  Leaves: pieces of JSON, each made when the one before it has gone.
//! Owns:   ids and no text: a client that reads slowly holds no copy of what it has yet to read. A row that is gone by then is
//!         left out. What has no id that lasts (connections, channels, consumers) is made text when its page is cut out.

use crate::api_error::ApiError;
use crate::definition_views;
use crate::limits::{ROWS_A_PIECE, SORTED_ROWS_MAX};
use crate::list_request::{ListRequest, PagePlace};
use crate::live::LiveChannel;
use crate::live_views;
use crate::query::Columns;
use crate::queue_view::{self, QueueDetail};
use crate::source::Source;
use catalog::{BindingPlace, ExchangeId, QueueId};
use definitions::Json;
use std::borrow::Cow;
use std::io::Write;

/// A row of a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    Queue(QueueId, QueueDetail),
    Exchange(ExchangeId),
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

    /// The row in a form that stays when the source is refreshed; nothing if it is gone already.
    fn settled(self, source: &dyn Source) -> Option<Self> {
        match self {
            Row::Connection(_) | Row::Channel(_) | Row::Consumer(_) => self.render(source).map(Row::Ready),
            row => Some(row),
        }
    }
}

/// The rows that are yet to be written.
#[derive(Debug)]
pub struct RowList {
    rows: std::vec::IntoIter<Row>,
    columns: Columns,
    place: Option<PagePlace>,
    has_begun: bool,
    has_rows: bool,
}

impl RowList {
    /// Filters, sorts and cuts a page out, as a client asks.
    ///
    /// # Errors
    /// The page is beyond the end, or there are too many rows to sort.
    pub fn new(source: &dyn Source, mut rows: Vec<Row>, request: &ListRequest) -> Result<Self, ApiError> {
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
        let rows: Vec<Row> = rows.into_iter().filter_map(|row| row.settled(source)).collect();
        let columns = request.columns.clone();
        Ok(Self { rows: rows.into_iter(), columns, place, has_begun: false, has_rows: false })
    }

    /// Rows that are yet to be written.
    pub fn rows_left(&self) -> usize {
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
        for row in self.rows.by_ref().take(ROWS_A_PIECE) {
            let Some(object) = row.render(source) else { continue };
            if std::mem::replace(&mut self.has_rows, true) {
                piece.push(b',');
            }
            piece.extend_from_slice(self.columns.select(object).line().as_bytes());
        }
        if self.rows.len() == 0 {
            piece.extend_from_slice(if self.place.is_some() { b"]}" } else { b"]" });
        }
        Some(piece)
    }
}

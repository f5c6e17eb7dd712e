//! A command that runs: the command line, a connection, and the steps that many commands have.

use crate::api_client::{ApiAnswer, ApiClient};
use crate::ctl_arguments::CtlArguments;
use crate::ctl_command::{BodyField, ChangeCommand, ListCommand, StatedKeys};
use crate::exit_status::{CtlError, SysExit};
use crate::output_format::OutputRows;
use cli::print_error;
use client::Url;
use definitions::Json;
use management::limits::DIRECT_PAGE_ROWS_MAX;
use management::percent;

/// The column that tells what the configuration states.
const CONFIGURED: &str = "configured";

/// What a command prints.
#[derive(Debug, PartialEq)]
pub enum CtlOutput {
    Nothing,
    /// For people; the same as an object for programs, if there is something to know.
    Text(String, Option<Json>),
    Rows(OutputRows),
    Object(Json),
}

/// A command with its connection.
pub struct CtlRun<'a> {
    pub arguments: &'a CtlArguments,
    pub url: &'a Url,
    pub client: &'a mut ApiClient,
}

/// Text in the place of `{NAME}` in a template.
fn expand(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, behind) = part.split_once('}').unwrap_or((part, ""));
        text.push_str(&value(name));
        text.push_str(behind);
    }
    text
}

impl CtlRun<'_> {
    /// The virtual host: of `-p`, or of the address.
    pub fn vhost(&self) -> &str {
        self.arguments.get("--vhost").unwrap_or(&self.url.vhost)
    }

    /// An argument, the value of an option, or the virtual host.
    fn value(&self, name: &str) -> &str {
        if name == "vhost" { self.vhost() } else { self.arguments.at(name) }
    }

    /// A path with names in the place of `{NAME}`.
    ///
    /// # Errors
    /// A name is empty: the path would be another one.
    pub fn path(&self, template: &str) -> Result<String, CtlError> {
        let names = template.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0));
        if let Some(empty) = names.into_iter().find(|name| self.value(name).is_empty()) {
            return Err(CtlError::usage(format!("{} is empty", empty.trim_start_matches('-'))));
        }
        Ok(expand(template, |name| percent::encode(self.value(name).as_bytes())))
    }

    /// A sentence with names in the place of `{NAME}`.
    pub fn sentence(&self, template: &str) -> String {
        expand(template, |name| self.value(name).to_owned())
    }

    /// Tells people what begins; programs and those who want quiet are not told.
    pub fn progress(&self, text: &str) {
        if !text.is_empty() && !self.arguments.is_quiet && !self.arguments.is_silent && cli::is_terminal_error() {
            print_error(text);
        }
    }

    /// Shows a list.
    pub fn list(&mut self, list: &ListCommand, stated: Option<StatedKeys>) -> Result<CtlOutput, CtlError> {
        let names = self.columns(list)?;
        let columns: Vec<ListColumn> = names.iter().map(|name| ListColumn::of(list, name)).collect();
        let stated = stated.filter(|_| names.contains(&CONFIGURED));
        let mut fields: Vec<&str> = columns.iter().filter_map(|column| column.field()).collect();
        fields.extend(stated.iter().flat_map(|stated| stated.keys.iter().map(|(_, field)| *field)));
        fields.extend(list.is_filtered.then_some("vhost"));
        let other = list.other_path.filter(|(option, _)| self.arguments.has(option)).map(|(_, path)| path);
        let path = self.path(other.unwrap_or(list.path))?;
        let fields: Vec<String> = fields.iter().map(|field| percent::encode(field.as_bytes())).collect();
        // No field at all would mean every one.
        let fields = if fields.is_empty() { "name".to_owned() } else { fields.join(",") };
        let what = self.arguments.command.does.replace("a virtual host", &format!("virtual host '{}'", self.vhost()));
        self.progress(&format!("Listing {what} ..."));
        let Some(mut items) = self.items(&format!("{path}?columns={fields}"))? else {
            return Err(self.missing("there is no virtual host '{vhost}'")?);
        };
        let stated = match stated {
            Some(stated) => Some((stated, self.client.command("stated", Vec::new())?)),
            None => None,
        };
        if list.is_filtered {
            let vhost = Json::text(self.vhost());
            items.retain(|item| item.get("vhost") == Some(&vhost));
        }
        let is_stated = |item: &Json| {
            let stated = stated.as_ref();
            stated.is_some_and(|(keys, all)| is_stated(all, keys, |field| field_of(item, field).cloned()))
        };
        let row = |item: &Json| columns.iter().map(|column| column.value(item, || is_stated(item))).collect();
        let rows = items.iter().map(row).collect();
        Ok(CtlOutput::Rows(OutputRows { columns: names, rows }))
    }

    /// All rows of a list, page by page; `None`: it is not there.
    pub fn items(&mut self, target: &str) -> Result<Option<Vec<Json>>, CtlError> {
        let strange = || CtlError::new(SysExit::Software, "the broker's answer is no page of a list");
        let mut items = Vec::new();
        for page in 1.. {
            let answer = self.client.get(&format!("{target}&page={page}&page_size={DIRECT_PAGE_ROWS_MAX}"))?;
            if answer.is_missing() {
                return Ok(None);
            }
            // The list has become shorter since the page before.
            if page > 1 && answer.error() == "page_out_of_range" {
                break;
            }
            let Json::Object(fields) = answer.into_result()? else { return Err(strange()) };
            let (mut pages, mut rows) = (None, None);
            for (key, value) in fields {
                match (&*key, value) {
                    ("page_count", Json::Int(count)) => pages = Some(count),
                    ("items", Json::List(list)) => rows = Some(list),
                    _ => {}
                }
            }
            items.extend(rows.ok_or_else(strange)?);
            if page >= pages.ok_or_else(strange)? {
                break;
            }
        }
        Ok(Some(items))
    }

    /// The columns that are asked for, or the usual ones.
    fn columns(&self, list: &ListCommand) -> Result<Vec<&'static str>, CtlError> {
        let wanted = self.arguments.rest.iter().flat_map(|word| word.split(',')).filter(|name| !name.is_empty());
        let known = || list.columns.iter().map(|column| column.split('=').next().unwrap_or_default());
        let find = |name: &str| {
            known().find(|known| *known == name).ok_or_else(|| {
                let all = known().collect::<Vec<_>>().join(", ");
                CtlError::usage(format!("'{}' has no column '{name}'; it has {all}", self.arguments.command.name))
            })
        };
        let wanted = wanted.map(find).collect::<Result<Vec<_>, _>>()?;
        Ok(if wanted.is_empty() { list.defaults.to_vec() } else { wanted })
    }

    /// Makes a change of one request.
    pub fn change(&mut self, change: &ChangeCommand) -> Result<CtlOutput, CtlError> {
        let body = self.body(change.body)?;
        let mut target = self.path(change.path)?;
        let set = change.query.iter().filter(|(_, option)| self.arguments.has(option));
        for (at, (parameter, _)) in set.enumerate() {
            target.push_str(&format!("{}{parameter}=true", if at == 0 { '?' } else { '&' }));
        }
        self.progress(&self.sentence(change.progress));
        let body = (!change.body.is_empty()).then(|| body.line());
        let reason = change.reason.map(|name| self.arguments.at(name));
        let answer = self.client.send(change.method, &target, body.as_deref(), reason)?;
        self.check(answer, change.missing)?;
        Ok(CtlOutput::Nothing)
    }

    fn body(&self, fields: &[(&str, BodyField)]) -> Result<Json, CtlError> {
        let mut body = Vec::new();
        for (key, field) in fields {
            let value = match *field {
                BodyField::Text(name) => self.arguments.get(name).map(Json::text),
                BodyField::Json(name) => self.arguments.get(name).map(|text| json(name, text)).transpose()?,
                BodyField::Number(name) => {
                    let number = self.arguments.get(name).map(|text| text.parse().map(Json::Int).map_err(|_| text));
                    let number = number.transpose();
                    number.map_err(|text| CtlError::data(format!("{name} takes a whole number, not '{text}'")))?
                }
                BodyField::Flag(name) => Some(Json::Bool(self.arguments.has(name))),
            };
            body.extend(value.map(|value| ((*key).to_owned(), value)));
        }
        Ok(Json::Object(body))
    }

    /// An answer that is no error. `missing` says what is not there, if it is 404.
    pub fn check(&mut self, answer: ApiAnswer, missing: &str) -> Result<Json, CtlError> {
        match answer.is_missing() || answer.reason() == "vhost_or_user_not_found" {
            true if !missing.is_empty() => Err(self.missing(missing)?),
            _ => answer.into_result(),
        }
    }

    /// The error for something that is not there: the user, if the command has one and it is not there either.
    fn missing(&mut self, template: &str) -> Result<CtlError, CtlError> {
        if self.arguments.get("USER").is_some() && self.client.get(&self.path("/api/users/{USER}")?)?.is_missing() {
            return Ok(self.no_user());
        }
        if self.arguments.get("--user").is_some_and(|_| self.arguments.get("USER").is_none()) {
            return Ok(CtlError::new(SysExit::NoUser, self.sentence("there is no user '{--user}'")));
        }
        Ok(CtlError::data(self.sentence(template)))
    }

    pub fn no_user(&self) -> CtlError {
        CtlError::new(SysExit::NoUser, self.sentence("there is no user '{USER}'"))
    }

    /// Before a change, a note for people if the configuration states what changes, so that it comes back. The change may take
    /// away the right to ask.
    pub fn note_of_stated(&mut self, stated: StatedKeys) -> Result<Option<String>, CtlError> {
        if self.arguments.is_quiet || self.arguments.is_silent {
            return Ok(None);
        }
        let all = self.client.command("stated", Vec::new())?;
        let note = || {
            let named = |(key, name): &(&str, &str)| format!("{key} '{}'", self.value(name));
            let names = stated.keys.iter().map(named).collect::<Vec<_>>().join(", ");
            let section = stated.section.replace('_', " ");
            format!(
                "note: the configuration states this too ({section}, {names}): when the broker starts again, it is as stated \
                 there"
            )
        };
        let is_it = is_stated(&all, &stated, |name| Some(Json::text(self.value(name))));
        Ok(is_it.then(note))
    }
}

/// A column of a list.
enum ListColumn {
    Field(&'static str),
    Constant(&'static str),
    Configured,
}

impl ListColumn {
    fn of(list: &ListCommand, name: &str) -> Self {
        let entry = list.columns.iter().find_map(|column| match column.split_once('=') {
            Some((known, field)) => (known == name).then_some(field),
            None => (*column == name).then_some(*column),
        });
        match entry.unwrap_or_default() {
            CONFIGURED => ListColumn::Configured,
            field => field.strip_prefix('\'').map_or(ListColumn::Field(field), ListColumn::Constant),
        }
    }

    fn field(&self) -> Option<&'static str> {
        match self {
            ListColumn::Field(field) => Some(field),
            _ => None,
        }
    }

    fn value(&self, item: &Json, is_stated: impl Fn() -> bool) -> Json {
        match self {
            ListColumn::Field(field) => field_of(item, field).cloned().unwrap_or(Json::Null),
            ListColumn::Constant(text) => Json::text(text),
            ListColumn::Configured => Json::Bool(is_stated()),
        }
    }
}

/// The value under a dotted name.
fn field_of<'a>(item: &'a Json, field: &str) -> Option<&'a Json> {
    field.split('.').try_fold(item, |value, key| value.get(key))
}

/// Whether the configuration states something, by the values of its keys.
fn is_stated(all: &Json, keys: &StatedKeys, value: impl Fn(&str) -> Option<Json>) -> bool {
    let Some(Json::List(entries)) = all.get(keys.section) else { return false };
    let is_it = |entry: &Json| keys.keys.iter().all(|(key, name)| entry.get(key) == value(name).as_ref());
    entries.iter().any(is_it)
}

/// An argument that is JSON.
pub fn json(name: &str, text: &str) -> Result<Json, CtlError> {
    Json::read(text.as_bytes()).map_err(|why| CtlError::data(format!("{name} is not JSON: {why}")))
}

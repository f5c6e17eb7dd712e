//! A command of `harrier ctl` as data: words, arguments, options, and what it does.
//!
//! Owns: the form of the tables; `--help`, the parser and the page of commands come from it.

/// A command.
#[derive(Clone, Copy)]
pub struct CtlCommand {
    pub name: &'static str,
    /// What stands behind it: `NAME` has to, `[NAME]` may, and `[NAME...]` takes the rest.
    pub arguments: &'static str,
    pub options: &'static [CtlOption],
    /// One sentence for people.
    pub does: &'static str,
    pub action: CtlAction,
    /// Under which names the configuration may state what it shows or changes.
    pub stated: Option<StatedKeys>,
}

/// An option that not every command has.
#[derive(Clone, Copy, Debug)]
pub struct CtlOption {
    pub long: &'static str,
    pub short: Option<&'static str>,
    /// The value, if it has one.
    pub value: Option<&'static str>,
    pub does: &'static str,
}

/// How the configuration names something: a section, and its keys. The second of a pair is the field of a row, or the value that
/// a change is given.
#[derive(Clone, Copy, Debug)]
pub struct StatedKeys {
    pub section: &'static str,
    pub keys: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy)]
pub enum CtlAction {
    List(ListCommand),
    Change(ChangeCommand),
    /// Anything else, with a connection to the broker.
    Own(OwnCommand),
    /// Without one.
    Offline(OfflineCommand),
}

/// The commands with steps of their own.
#[derive(Clone, Copy)]
pub enum OwnCommand {
    Status,
    Ping,
    ServerVersion,
    SetLogLevel,
    AddUser,
    ChangePassword,
    ClearPassword,
    SetUserTags,
    AuthenticateUser,
    ClearTopicPermissions,
    SetVhostLimits,
    ClearVhostLimits,
    SetUserLimits,
    ClearUserLimits,
    CloseAllConnections,
    CloseAllUserConnections,
    ExportDefinitions,
    ImportDefinitions,
    Definitions,
    Store,
}

/// Those that begin without a connection.
#[derive(Clone, Copy)]
pub enum OfflineCommand {
    Version,
    Help,
    AwaitStartup,
}

/// Shows rows that a route of the API answers.
#[derive(Clone, Copy)]
pub struct ListCommand {
    /// With `{NAME}` for arguments and options, and `{vhost}`.
    pub path: &'static str,
    /// An option, and the path with it.
    pub other_path: Option<(&'static str, &'static str)>,
    /// `NAME`, `NAME=FIELD`, or `NAME='TEXT` for one that is always the same.
    pub columns: &'static [&'static str],
    /// Of these, what is shown if no column is named.
    pub defaults: &'static [&'static str],
    /// Rows of other virtual hosts are left out here, since the route has all.
    pub is_filtered: bool,
}

/// Sends one request that changes something.
#[derive(Clone, Copy)]
pub struct ChangeCommand {
    pub method: &'static str,
    pub path: &'static str,
    /// Parameters of the query, and the options that set them.
    pub query: &'static [(&'static str, &'static str)],
    pub body: &'static [(&'static str, BodyField)],
    /// The argument that is the reason of the request.
    pub reason: Option<&'static str>,
    /// For a terminal, before it begins.
    pub progress: &'static str,
    /// What is not there, if the answer is 404.
    pub missing: &'static str,
}

/// A field of a body.
#[derive(Clone, Copy, Debug)]
pub enum BodyField {
    /// An argument, or an option that is given, as it is.
    Text(&'static str),
    /// The same, read as JSON.
    Json(&'static str),
    /// The same, read as a whole number.
    Number(&'static str),
    /// Whether an option is given.
    Flag(&'static str),
}

pub const VHOST: CtlOption = CtlOption {
    long: "--vhost",
    short: Some("-p"),
    value: Some("VHOST"),
    does: "the virtual host; default: that of the address",
};

impl CtlCommand {
    pub const fn new(name: &'static str, arguments: &'static str, does: &'static str, action: CtlAction) -> Self {
        CtlCommand { name, arguments, options: &[], does, action, stated: None }
    }

    pub const fn with_options(self, options: &'static [CtlOption]) -> Self {
        CtlCommand { options, ..self }
    }

    pub const fn with_stated(self, section: &'static str, keys: &'static [(&'static str, &'static str)]) -> Self {
        CtlCommand { stated: Some(StatedKeys { section, keys }), ..self }
    }

    /// `NAME ARGUMENTS`, with its options.
    pub fn usage(&self) -> String {
        let options = self.options.iter().map(|option| {
            let word = option.short.unwrap_or(option.long);
            let value = option.value.map(|value| format!(" {value}")).unwrap_or_default();
            format!(" [{word}{value}]")
        });
        let arguments = if self.arguments.is_empty() { String::new() } else { format!(" {}", self.arguments) };
        format!("{}{}{arguments}", self.name, options.collect::<String>())
    }
}

//! The commands with steps of their own, one entry each.

use crate::ctl_command::{CtlAction, CtlCommand, CtlOption, OfflineCommand, OwnCommand, VHOST};

const fn own(name: &'static str, arguments: &'static str, does: &'static str, command: OwnCommand) -> CtlCommand {
    CtlCommand::new(name, arguments, does, CtlAction::Own(command))
}

const USER_KEYS: &[(&str, &str)] = &[("name", "USER")];
const GLOBAL: CtlOption =
    CtlOption { long: "--global", short: None, value: None, does: "in every virtual host, which is the default" };

pub const OWN_COMMANDS: &[CtlCommand] = &[
    own("status", "", "the state of the broker: versions, memory, disk, listeners, alarms, totals", OwnCommand::Status),
    own("ping", "", "whether the broker answers", OwnCommand::Ping),
    own("server_version", "", "the version of the broker", OwnCommand::ServerVersion),
    CtlCommand::new("version", "", "the version of this program", CtlAction::Offline(OfflineCommand::Version)),
    CtlCommand::new("help", "[COMMAND]", "the commands, or one of them", CtlAction::Offline(OfflineCommand::Help)),
    CtlCommand::new(
        "await_startup",
        "",
        "waits until the broker answers, for 300 s or --timeout",
        CtlAction::Offline(OfflineCommand::AwaitStartup),
    ),
    own(
        "set_log_level",
        "LEVEL",
        "sets the level of the log until the broker ends: error, warn, info, debug or trace",
        OwnCommand::SetLogLevel,
    ),
    own(
        "add_user",
        "USER [PASSWORD]",
        "adds a user without tags and permissions; a missing password is read from standard input",
        OwnCommand::AddUser,
    )
    .with_options(&[CtlOption {
        long: "--pre-hashed-password",
        short: None,
        value: None,
        does: "PASSWORD is a hash, as export_definitions and harrier hash-password write it",
    }])
    .with_stated("users", USER_KEYS),
    own(
        "change_password",
        "USER [PASSWORD]",
        "changes a user's password; a missing one is read from standard input",
        OwnCommand::ChangePassword,
    )
    .with_stated("users", USER_KEYS),
    own("clear_password", "USER", "takes a user's password away: none lets it in", OwnCommand::ClearPassword)
        .with_stated("users", USER_KEYS),
    own("set_user_tags", "USER [TAG...]", "sets a user's tags, all of them", OwnCommand::SetUserTags)
        .with_stated("users", USER_KEYS),
    own(
        "authenticate_user",
        "USER [PASSWORD]",
        "whether a password lets a user in; a missing one is read from standard input",
        OwnCommand::AuthenticateUser,
    ),
    own(
        "clear_topic_permissions",
        "USER [EXCHANGE]",
        "removes a user's topic permissions on an exchange, or on all in a virtual host",
        OwnCommand::ClearTopicPermissions,
    )
    .with_options(&[VHOST])
    .with_stated("topic_permissions", &[("user", "USER"), ("vhost", "vhost")]),
    own(
        "set_vhost_limits",
        "DEFINITION",
        "sets limits of a virtual host, as JSON: max-connections, max-queues, max-queue-bytes",
        OwnCommand::SetVhostLimits,
    )
    .with_options(&[VHOST])
    .with_stated("vhost_limits", &[("vhost", "vhost")]),
    own("clear_vhost_limits", "", "removes the limits of a virtual host", OwnCommand::ClearVhostLimits)
        .with_options(&[VHOST])
        .with_stated("vhost_limits", &[("vhost", "vhost")]),
    own(
        "set_user_limits",
        "USER DEFINITION",
        "sets limits of a user, as JSON: max-connections, max-channels",
        OwnCommand::SetUserLimits,
    )
    .with_stated("user_limits", &[("user", "USER")]),
    own("clear_user_limits", "USER LIMIT", "removes a limit of a user, or all", OwnCommand::ClearUserLimits)
        .with_stated("user_limits", &[("user", "USER")]),
    own(
        "close_all_connections",
        "EXPLANATION",
        "closes the connections of a virtual host, or of all; not its own",
        OwnCommand::CloseAllConnections,
    )
    .with_options(&[VHOST, GLOBAL]),
    own(
        "close_all_user_connections",
        "USER EXPLANATION",
        "closes the connections of a user; not its own",
        OwnCommand::CloseAllUserConnections,
    ),
    own(
        "export_definitions",
        "[FILE]",
        "writes all definitions, or with -p those of a virtual host, to a file or to standard output (-)",
        OwnCommand::ExportDefinitions,
    )
    .with_options(&[VHOST]),
    own(
        "import_definitions",
        "[FILE]",
        "reads definitions from a file or from standard input (-); with -p into a virtual host",
        OwnCommand::ImportDefinitions,
    )
    .with_options(&[VHOST]),
    own(
        "definitions",
        "",
        "the definitions of this moment, declarations of clients included, as a definitions file",
        OwnCommand::Definitions,
    )
    .with_options(&[VHOST]),
    own(
        "store",
        "",
        "what the durable store has written since the start, how long that took, and what it holds",
        OwnCommand::Store,
    ),
];

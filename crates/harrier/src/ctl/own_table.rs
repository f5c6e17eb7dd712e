//! The commands with steps of their own, one entry each.

use super::command_table::{CtlAction, CtlCommand, CtlOption, VHOST};
use super::{broker_commands, connection_commands, definition_files, limit_commands, startup_wait, user_commands};

const fn own(
    name: &'static str,
    arguments: &'static str,
    does: &'static str,
    run: fn(&mut super::ctl_run::CtlRun<'_>) -> Result<super::ctl_run::CtlOutput, super::exit_status::CtlError>,
) -> CtlCommand {
    CtlCommand::new(name, arguments, does, CtlAction::Own(run))
}

const USER_KEYS: &[(&str, &str)] = &[("name", "USER")];
const GLOBAL: CtlOption =
    CtlOption { long: "--global", short: None, value: None, does: "in every virtual host, which is the default" };

pub const OWN_COMMANDS: &[CtlCommand] = &[
    own(
        "status",
        "",
        "the state of the broker: versions, memory, disk, listeners, alarms, totals",
        broker_commands::status,
    ),
    own("ping", "", "whether the broker answers", broker_commands::ping),
    own("server_version", "", "the version of the broker", broker_commands::server_version),
    CtlCommand::new("version", "", "the version of this program", CtlAction::Offline(broker_commands::version)),
    CtlCommand::new("help", "[COMMAND]", "the commands, or one of them", CtlAction::Offline(super::help)),
    CtlCommand::new(
        "await_startup",
        "",
        "waits until the broker answers, for 300 s or --timeout",
        CtlAction::Offline(startup_wait::await_startup),
    ),
    own(
        "set_log_level",
        "LEVEL",
        "sets the level of the log until the broker ends: error, warn, info, debug or trace",
        broker_commands::set_log_level,
    ),
    own(
        "add_user",
        "USER [PASSWORD]",
        "adds a user without tags and permissions; a missing password is read from standard input",
        user_commands::add_user,
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
        user_commands::change_password,
    )
    .with_stated("users", USER_KEYS),
    own("clear_password", "USER", "takes a user's password away: none lets it in", user_commands::clear_password)
        .with_stated("users", USER_KEYS),
    own("set_user_tags", "USER [TAG...]", "sets a user's tags, all of them", user_commands::set_user_tags)
        .with_stated("users", USER_KEYS),
    own(
        "authenticate_user",
        "USER [PASSWORD]",
        "whether a password lets a user in; a missing one is read from standard input",
        user_commands::authenticate_user,
    ),
    own(
        "clear_topic_permissions",
        "USER [EXCHANGE]",
        "removes a user's topic permissions on an exchange, or on all in a virtual host",
        user_commands::clear_topic_permissions,
    )
    .with_options(&[VHOST])
    .with_stated("topic_permissions", &[("user", "USER"), ("vhost", "vhost")]),
    own(
        "set_vhost_limits",
        "DEFINITION",
        "sets limits of a virtual host, as JSON: max-connections, max-queues, max-queue-bytes",
        limit_commands::set_vhost_limits,
    )
    .with_options(&[VHOST])
    .with_stated("vhost_limits", &[("vhost", "vhost")]),
    own("clear_vhost_limits", "", "removes the limits of a virtual host", limit_commands::clear_vhost_limits)
        .with_options(&[VHOST])
        .with_stated("vhost_limits", &[("vhost", "vhost")]),
    own(
        "set_user_limits",
        "USER DEFINITION",
        "sets limits of a user, as JSON: max-connections, max-channels",
        limit_commands::set_user_limits,
    )
    .with_stated("user_limits", &[("user", "USER")]),
    own("clear_user_limits", "USER LIMIT", "removes a limit of a user, or all", limit_commands::clear_user_limits)
        .with_stated("user_limits", &[("user", "USER")]),
    own(
        "close_all_connections",
        "EXPLANATION",
        "closes the connections of a virtual host, or of all; not its own",
        connection_commands::close_all_connections,
    )
    .with_options(&[VHOST, GLOBAL]),
    own(
        "close_all_user_connections",
        "USER EXPLANATION",
        "closes the connections of a user; not its own",
        connection_commands::close_all_user_connections,
    ),
    own(
        "export_definitions",
        "[FILE]",
        "writes all definitions, or with -p those of a virtual host, to a file or to standard output (-)",
        definition_files::export_definitions,
    )
    .with_options(&[VHOST]),
    own(
        "import_definitions",
        "[FILE]",
        "reads definitions from a file or from standard input (-); with -p into a virtual host",
        definition_files::import_definitions,
    )
    .with_options(&[VHOST]),
    own(
        "definitions",
        "",
        "the definitions of this moment, declarations of clients included, as a definitions file",
        definition_files::definitions,
    )
    .with_options(&[VHOST]),
    own(
        "store",
        "",
        "what the durable store has written since the start, how long that took, and what it holds",
        broker_commands::store,
    ),
];

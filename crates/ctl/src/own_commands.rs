//! What the commands with steps of their own run.

use crate::ctl_command::OwnCommand;
use crate::ctl_run::{CtlOutput, CtlRun};
use crate::exit_status::CtlError;
use crate::{broker_commands, connection_commands, definition_files, limit_commands, user_commands};

pub fn run(command: OwnCommand, run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    match command {
        OwnCommand::Status => broker_commands::status(run),
        OwnCommand::Ping => broker_commands::ping(run),
        OwnCommand::ServerVersion => broker_commands::server_version(run),
        OwnCommand::SetLogLevel => broker_commands::set_log_level(run),
        OwnCommand::AddUser => user_commands::add_user(run),
        OwnCommand::ChangePassword => user_commands::change_password(run),
        OwnCommand::ClearPassword => user_commands::clear_password(run),
        OwnCommand::SetUserTags => user_commands::set_user_tags(run),
        OwnCommand::AuthenticateUser => user_commands::authenticate_user(run),
        OwnCommand::ClearTopicPermissions => user_commands::clear_topic_permissions(run),
        OwnCommand::SetVhostLimits => limit_commands::set_vhost_limits(run),
        OwnCommand::ClearVhostLimits => limit_commands::clear_vhost_limits(run),
        OwnCommand::SetUserLimits => limit_commands::set_user_limits(run),
        OwnCommand::ClearUserLimits => limit_commands::clear_user_limits(run),
        OwnCommand::CloseAllConnections => connection_commands::close_all_connections(run),
        OwnCommand::CloseAllUserConnections => connection_commands::close_all_user_connections(run),
        OwnCommand::ExportDefinitions => definition_files::export_definitions(run),
        OwnCommand::ImportDefinitions => definition_files::import_definitions(run),
        OwnCommand::Definitions => definition_files::definitions(run),
        OwnCommand::Store => broker_commands::store(run),
    }
}

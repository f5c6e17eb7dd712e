//! What each route that changes something comes to.
//!
//! Enters: an action, the source's replica.  Leaves: a planned change, or why there is none.
//! Never:  changes anything itself.

mod bindings;
mod exchanges;
mod import;
mod kept_limits;
mod limit_values;
mod live_objects;
mod messages;
pub mod names;
pub mod parameters;
mod permissions;
mod policies;
mod queues;
mod users;
mod vhosts;

use crate::api_error::ApiError;
use crate::change_request::ChangeRequest;
use crate::planned_change::PlannedChange;
use crate::route::Handler;
use crate::source::{Action, ActionKind, Source};

/// What a change is planned as.
type Planned = Result<PlannedChange, ApiError>;

/// Plans an action: checks all of its arguments, and the permissions that AMQP asks for. What a catalog refuses when definitions
/// are executed is refused then.
///
/// # Errors
/// The answer: the action is malformed, not allowed, or for something that is not there.
pub fn plan(source: &dyn Source, action: &Action) -> Planned {
    let (matched, query, body, reason) = match &action.kind {
        ActionKind::Import { file, vhost } => return import::import(source, file, *vhost),
        ActionKind::Route { matched, query, body, reason } => (matched, query, body, reason.as_deref()),
    };
    let (user, user_name, salt) = (action.user, &action.user_name, action.salt);
    let request = ChangeRequest { source, user, user_name, salt, matched, query, body, reason };
    match matched.route.handler {
        Handler::Aliveness => live_objects::aliveness(&request),
        Handler::AuthAttemptsReset => live_objects::reset_login_counts(&request),
        Handler::BindingCreate => bindings::create(&request),
        Handler::BindingDelete => bindings::delete(&request),
        Handler::ClusterNameSet => names::name_cluster(&request),
        Handler::ConnectionClose => live_objects::close_connection(&request),
        Handler::ConnectionsOfUserClose => live_objects::close_connections_of_user(&request),
        Handler::ExchangeDeclare => exchanges::declare(&request),
        Handler::ExchangeDelete => exchanges::delete(&request),
        Handler::FederationLinkRestart => live_objects::restart_federation_link(&request),
        Handler::GlobalParameterClear => parameters::clear_global(&request),
        Handler::GlobalParameterSet => parameters::set_global(&request),
        Handler::OperatorPolicyClear => policies::clear(&request, true),
        Handler::OperatorPolicySet => policies::set(&request, true),
        Handler::ParameterClear => parameters::clear(&request),
        Handler::ParameterSet => parameters::set(&request),
        Handler::PermissionClear => permissions::clear(&request),
        Handler::PermissionSet => permissions::set(&request),
        Handler::PolicyClear => policies::clear(&request, false),
        Handler::PolicySet => policies::set(&request, false),
        Handler::Publish => messages::publish(&request),
        Handler::QueueDeclare => queues::declare(&request),
        Handler::QueueDelete => queues::delete(&request),
        Handler::QueueGet => messages::get(&request),
        Handler::QueuePurge => messages::purge(&request),
        Handler::ShovelDelete => parameters::delete_shovel(&request),
        Handler::ShovelPause => parameters::pause_shovel(&request, true),
        Handler::ShovelRestart => parameters::restart_shovel(&request),
        Handler::ShovelResume => parameters::pause_shovel(&request, false),
        Handler::TopicPermissionClear => permissions::clear_topics(&request),
        Handler::TopicPermissionSet => permissions::set_topic(&request),
        Handler::UserDelete => users::delete(&request),
        Handler::UserLimitClear => limit_values::clear_of_user(&request),
        Handler::UserLimitSet => limit_values::set_of_user(&request),
        Handler::UserPut => users::put(&request),
        Handler::UsersBulkDelete => users::delete_several(&request),
        Handler::VhostCreate => vhosts::create(&request),
        Handler::VhostDelete => vhosts::delete(&request),
        Handler::VhostLimitClear => limit_values::clear_of_vhost(&request),
        Handler::VhostLimitSet => limit_values::set_of_vhost(&request),
        Handler::VhostProtect => vhosts::protect(&request, true),
        Handler::VhostUnprotect => vhosts::protect(&request, false),
        // Reading, and what the API answers by itself.
        _ => Err(ApiError::new(501, "not_implemented", "the route changes nothing")),
    }
}

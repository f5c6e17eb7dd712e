//! The routes of the API, one line each.
//!
//! Owns: the table; `docs/management.md` and `docs/management/openapi.json` are made from it.

use crate::route::Handler;
use crate::route::HttpMethod::{Delete, Get, Post, Put};
use crate::route::RequiredTag::{Administrator, Any, Monitoring, Open, Owner, Policymaker};
use crate::route::Route;
use crate::route::RouteScope::{Anywhere, Vhost, VisibleVhost};

/// `method "pattern" tag scope handler: "what it does";`, under headings.
macro_rules! routes {
    (
        $($heading:literal {
            $($method:ident $pattern:literal $tag:ident $scope:ident $handler:ident: $does:literal;)+
        })+
    ) => {
        &[$((
            $heading,
            &[$(Route {
                method: $method,
                pattern: $pattern,
                tag: $tag,
                scope: $scope,
                handler: Handler::$handler,
                does: $does,
            },)+],
        ),)+]
    };
}

/// The routes under their headings on the reference page.
pub static ROUTES: &[(&str, &[Route])] = routes! {
    "The broker" {
        Get "/api/overview" Any Anywhere Overview: "Totals, rates, listeners and versions of the broker.";
        Get "/api/whoami" Any Anywhere Whoami: "The name and the tags of the user who asks.";
        Get "/api/auth" Open Anywhere AuthSettings: "How a page logs in: OAuth 2 is off.";
        Post "/api/login" Open Anywhere Login:
            "Begins a session of a browser: `username` and `password` in a form or an object.";
        Delete "/api/login" Open Anywhere Logout: "Ends the session.";
        Get "/api/extensions" Any Anywhere Extensions: "Extensions of the page: none.";
        Get "/api/cluster-name" Any Anywhere ClusterName: "The name of the cluster.";
        Put "/api/cluster-name" Administrator Anywhere ClusterNameSet:
            "Names the cluster for people and tools.";
        Get "/api/nodes" Monitoring Anywhere Nodes: "The nodes of the cluster: this one.";
        Get "/api/nodes/{node}" Monitoring Anywhere Node: "One node.";
        Get "/api/nodes/{node}/memory" Monitoring Anywhere Memory: "What takes the memory of a node.";
        Get "/api/feature-flags" Any Anywhere FeatureFlags: "Feature flags.";
        Put "/api/feature-flags/{name}/enable" Administrator Anywhere FeatureFlagEnable: "Enables a feature flag.";
        Get "/api/deprecated-features" Any Anywhere DeprecatedFeatures: "Deprecated features: none.";
        Get "/api/deprecated-features/used" Any Anywhere DeprecatedFeatures: "Deprecated features in use: none.";
        Post "/api/rebalance/queues" Administrator Anywhere RebalanceQueues:
            "Accepted without effect: a queue stays where it is.";
        Delete "/api/reset" Administrator Anywhere ResetStatistics:
            "Forgets the past that samples show; counts go on.";
        Delete "/api/reset/{node}" Administrator Anywhere ResetStatistics: "The same, of a node.";
        Get "/api/auth/attempts/{node}" Monitoring Anywhere AuthAttempts: "Attempts to log in, by protocol.";
        Get "/api/auth/attempts/{node}/source" Monitoring Anywhere AuthAttempts:
            "The same; sources are not told apart.";
        Delete "/api/auth/attempts/{node}" Monitoring Anywhere AuthAttemptsReset:
            "Sets the counts of logins to zero.";
        Delete "/api/auth/attempts/{node}/source" Monitoring Anywhere AuthAttemptsReset:
            "Sets the counts of logins to zero.";
        Get "/api/auth/hash_password/{password}" Administrator Anywhere HashPassword:
            "The hash of a password, which the path shows to logs: prefer POST.";
        Post "/api/auth/hash_password" Administrator Anywhere HashPassword: "The hash of the password in the body.";
    }
    "The page" {
        Get "/" Open Anywhere PageDocument: "The page for browsers.";
        Get "/page/{file}" Open Anywhere PageFile: "A file of the page.";
        Get "/api/audit" Administrator Anywhere Audit: "The last changes that were asked for, and what came of each.";
    }
    "Definitions" {
        Get "/api/definitions" Administrator Anywhere Definitions: "All definitions as a file.";
        Post "/api/definitions" Administrator Anywhere DefinitionsImport: "Takes a definitions file in.";
        Get "/api/all-configuration" Administrator Anywhere Definitions: "All definitions as a file.";
        Post "/api/all-configuration" Administrator Anywhere DefinitionsImport: "Takes a definitions file in.";
        Get "/api/definitions/{vhost}" Administrator Anywhere DefinitionsOfVhost:
            "The definitions of one virtual host as a file.";
        Post "/api/definitions/{vhost}" Administrator Anywhere DefinitionsOfVhostImport:
            "Takes a definitions file into one virtual host.";
    }
    "Policies, parameters and limits" {
        Get "/api/parameters" Policymaker Anywhere Parameters: "All parameters.";
        Get "/api/parameters/{component}" Policymaker Anywhere Parameters: "The parameters of a component.";
        Get "/api/parameters/{component}/{vhost}" Policymaker Vhost Parameters:
            "The parameters of a component in a virtual host.";
        Get "/api/parameters/{component}/{vhost}/{name}" Policymaker Vhost Parameter: "One parameter.";
        Put "/api/parameters/{component}/{vhost}/{name}" Policymaker Vhost ParameterSet: "Sets a parameter.";
        Delete "/api/parameters/{component}/{vhost}/{name}" Policymaker Vhost ParameterClear: "Clears a parameter.";
        Get "/api/global-parameters" Policymaker Anywhere GlobalParameters: "All global parameters.";
        Get "/api/global-parameters/{name}" Policymaker Anywhere GlobalParameter: "One global parameter.";
        Put "/api/global-parameters/{name}" Policymaker Anywhere GlobalParameterSet: "Sets a global parameter.";
        Delete "/api/global-parameters/{name}" Policymaker Anywhere GlobalParameterClear:
            "Clears a global parameter.";
        Get "/api/policies" Any Anywhere Policies: "All policies.";
        Get "/api/policies/{vhost}" Any Vhost Policies: "The policies of a virtual host.";
        Get "/api/policies/{vhost}/{name}" Any Vhost Policy: "One policy.";
        Put "/api/policies/{vhost}/{name}" Policymaker Vhost PolicySet: "Sets a policy.";
        Delete "/api/policies/{vhost}/{name}" Policymaker Vhost PolicyClear: "Clears a policy.";
        Get "/api/operator-policies" Any Anywhere OperatorPolicies: "All of the operator's policies.";
        Get "/api/operator-policies/{vhost}" Any Vhost OperatorPolicies: "The operator's policies of a virtual host.";
        Get "/api/operator-policies/{vhost}/{name}" Any Vhost OperatorPolicy: "One of the operator's policies.";
        Put "/api/operator-policies/{vhost}/{name}" Administrator Vhost OperatorPolicySet:
            "Sets one of the operator's policies.";
        Delete "/api/operator-policies/{vhost}/{name}" Administrator Vhost OperatorPolicyClear:
            "Clears one of the operator's policies.";
        Get "/api/vhost-limits" Any Anywhere VhostLimits: "The limits of all virtual hosts that have some.";
        Get "/api/vhost-limits/{vhost}" Any Vhost VhostLimits: "The limits of a virtual host.";
        Put "/api/vhost-limits/{vhost}/{name}" Administrator Anywhere VhostLimitSet:
            "Sets a limit of a virtual host.";
        Delete "/api/vhost-limits/{vhost}/{name}" Administrator Anywhere VhostLimitClear:
            "Clears a limit of a virtual host.";
        Get "/api/user-limits" Administrator Anywhere UserLimits: "The limits of all users who have some.";
        Get "/api/user-limits/{user}" Administrator Anywhere UserLimits: "The limits of a user.";
        Put "/api/user-limits/{user}/{name}" Administrator Anywhere UserLimitSet: "Sets a limit of a user.";
        Delete "/api/user-limits/{user}/{name}" Administrator Anywhere UserLimitClear: "Clears a limit of a user.";
    }
    "Connections, channels and consumers" {
        Get "/api/connections" Owner Anywhere Connections: "All open connections.";
        Get "/api/connections/{name}" Owner Anywhere Connection: "One connection.";
        Delete "/api/connections/{name}" Owner Anywhere ConnectionClose:
            "Closes a connection; the header X-Reason says why.";
        Get "/api/connections/username/{user}" Owner Anywhere ConnectionsOfUser: "The connections of a user.";
        Delete "/api/connections/username/{user}" Owner Anywhere ConnectionsOfUserClose:
            "Closes the connections of a user.";
        Get "/api/connections/{name}/channels" Owner Anywhere ChannelsOfConnection: "The channels of a connection.";
        Get "/api/connections/{name}/sessions" Owner Anywhere ConnectionSessions: "Sessions of AMQP 1.0: none.";
        Get "/api/vhosts/{vhost}/connections" Owner VisibleVhost Connections: "The connections of a virtual host.";
        Get "/api/vhosts/{vhost}/channels" Owner VisibleVhost Channels: "The channels of a virtual host.";
        Get "/api/channels" Owner Anywhere Channels: "All open channels.";
        Get "/api/channels/{name}" Owner Anywhere Channel: "One channel.";
        Get "/api/consumers" Any Anywhere Consumers: "All consumers.";
        Get "/api/consumers/{vhost}" Any Vhost Consumers: "The consumers of a virtual host.";
    }
    "Exchanges, queues and bindings" {
        Get "/api/exchanges" Any Anywhere Exchanges: "All exchanges.";
        Get "/api/exchanges/{vhost}" Any Vhost Exchanges: "The exchanges of a virtual host.";
        Get "/api/exchanges/{vhost}/{name}" Any Vhost Exchange: "One exchange.";
        Put "/api/exchanges/{vhost}/{name}" Any Vhost ExchangeDeclare: "Declares an exchange.";
        Delete "/api/exchanges/{vhost}/{name}" Any Vhost ExchangeDelete: "Deletes an exchange.";
        Get "/api/exchanges/{vhost}/{name}/route" Any Vhost ExchangeRoute:
            "The queues that a message with `routing_key` and `headers` (JSON) would reach; nothing is published.";
        Post "/api/exchanges/{vhost}/{name}/publish" Any Vhost Publish: "Publishes a message.";
        Get "/api/exchanges/{vhost}/{name}/bindings/source" Any Vhost BindingsFrom: "The bindings from an exchange.";
        Get "/api/exchanges/{vhost}/{name}/bindings/destination" Any Vhost BindingsTo: "The bindings to an exchange.";
        Get "/api/queues" Any Anywhere Queues: "All queues.";
        Get "/api/queues/detailed" Any Anywhere Queues: "All queues, with every field.";
        Get "/api/queues/{vhost}" Any Vhost Queues: "The queues of a virtual host.";
        Get "/api/queues/{vhost}/{name}" Any Vhost Queue: "One queue with its consumers.";
        Put "/api/queues/{vhost}/{name}" Any Vhost QueueDeclare: "Declares a queue.";
        Delete "/api/queues/{vhost}/{name}" Any Vhost QueueDelete: "Deletes a queue.";
        Delete "/api/queues/{vhost}/{name}/contents" Any Vhost QueuePurge: "Purges a queue.";
        Post "/api/queues/{vhost}/{name}/get" Any Vhost QueueGet: "Gets messages from a queue.";
        Get "/api/queues/{vhost}/{name}/bindings" Any Vhost BindingsOfQueue: "The bindings to a queue.";
        Post "/api/queues/{vhost}/{name}/actions" Administrator Vhost QueueAction:
            "Accepts `sync` and `cancel_sync`: a queue has no copies.";
        Get "/api/bindings" Any Anywhere Bindings: "All bindings.";
        Get "/api/bindings/{vhost}" Any Vhost Bindings: "The bindings of a virtual host.";
        Get "/api/bindings/{vhost}/e/{source}/{kind}/{destination}" Any Vhost BindingsBetween:
            "The bindings between an exchange and a queue or exchange.";
        Post "/api/bindings/{vhost}/e/{source}/{kind}/{destination}" Any Vhost BindingCreate:
            "Binds; Location names the binding.";
        Get "/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}" Any Vhost Binding: "One binding.";
        Delete "/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}" Any Vhost BindingDelete:
            "Removes a binding.";
    }
    "Virtual hosts" {
        Get "/api/vhosts" Any Anywhere Vhosts: "All virtual hosts.";
        Get "/api/vhosts/{vhost}" Any VisibleVhost Vhost: "One virtual host.";
        Put "/api/vhosts/{vhost}" Administrator Anywhere VhostCreate:
            "Creates a virtual host, in which its creator has all permissions.";
        Delete "/api/vhosts/{vhost}" Administrator Anywhere VhostDelete:
            "Deletes a virtual host with everything in it.";
        Get "/api/vhosts/{vhost}/permissions" Administrator Anywhere PermissionsOfVhost:
            "The permissions in a virtual host.";
        Get "/api/vhosts/{vhost}/topic-permissions" Administrator Anywhere TopicPermissionsOfVhost:
            "The topic permissions in a virtual host.";
        Post "/api/vhosts/{vhost}/deletion/protection" Administrator Anywhere VhostProtect:
            "Protects a virtual host against deletion.";
        Delete "/api/vhosts/{vhost}/deletion/protection" Administrator Anywhere VhostUnprotect:
            "Removes the protection.";
    }
    "Users and permissions" {
        Get "/api/users" Administrator Anywhere Users: "All users.";
        Get "/api/users/without-permissions" Administrator Anywhere UsersWithoutPermissions:
            "Users without a permission anywhere.";
        Post "/api/users/bulk-delete" Administrator Anywhere UsersBulkDelete: "Deletes several users.";
        Get "/api/users/{user}" Administrator Anywhere User: "One user.";
        Put "/api/users/{user}" Administrator Anywhere UserPut: "Makes a user, or changes one.";
        Delete "/api/users/{user}" Administrator Anywhere UserDelete: "Deletes a user.";
        Get "/api/users/{user}/permissions" Administrator Anywhere PermissionsOfUser: "The permissions of a user.";
        Get "/api/users/{user}/topic-permissions" Administrator Anywhere TopicPermissionsOfUser:
            "The topic permissions of a user.";
        Get "/api/permissions" Administrator Anywhere Permissions: "All permissions.";
        Get "/api/permissions/{vhost}/{user}" Administrator Anywhere Permission:
            "The permission of a user in a virtual host.";
        Put "/api/permissions/{vhost}/{user}" Administrator Anywhere PermissionSet: "Gives a user a permission.";
        Delete "/api/permissions/{vhost}/{user}" Administrator Anywhere PermissionClear: "Takes a permission away.";
        Get "/api/topic-permissions" Administrator Anywhere TopicPermissions: "All topic permissions.";
        Get "/api/topic-permissions/{vhost}/{user}" Administrator Anywhere TopicPermission:
            "The topic permissions of a user in a virtual host.";
        Put "/api/topic-permissions/{vhost}/{user}" Administrator Anywhere TopicPermissionSet:
            "Gives a user a topic permission.";
        Get "/api/topic-permissions/{vhost}/{user}/{exchange}" Administrator Anywhere TopicPermission:
            "The topic permission of a user on an exchange.";
        Put "/api/topic-permissions/{vhost}/{user}/{exchange}" Administrator Anywhere TopicPermissionSet:
            "Gives a user a topic permission on the exchange of the path.";
        Delete "/api/topic-permissions/{vhost}/{user}" Administrator Anywhere TopicPermissionClear:
            "Takes all topic permissions there away.";
        Delete "/api/topic-permissions/{vhost}/{user}/{exchange}" Administrator Anywhere TopicPermissionClear:
            "Takes a topic permission away.";
    }
    "Health" {
        Get "/api/aliveness-test/{vhost}" Any Vhost Aliveness: "Publishes a message and gets it back.";
        Get "/api/health/checks/alarms" Any Anywhere CheckAlarms: "Whether no alarm is in effect.";
        Get "/api/alarms/history" Monitoring Anywhere Alarms:
            "Harrier's own list of alarms of memory and disk space: those in effect and the last ones that were, the newest first.";
        Get "/api/health/checks/local-alarms" Any Anywhere CheckAlarms: "Whether no alarm is in effect on this node.";
        Get "/api/health/checks/virtual-hosts" Any Anywhere CheckVhosts: "Whether all virtual hosts run.";
        Get "/api/health/checks/port-listener/{port}" Any Anywhere CheckPortListener:
            "Whether the broker listens at a port.";
        Get "/api/health/checks/protocol-listener/{protocol}" Any Anywhere CheckProtocolListener:
            "Whether there is a listener for each of some protocols.";
        Get "/api/health/checks/certificate-expiration/{within}/{unit}" Any Anywhere CheckCertificate:
            "Whether no certificate expires within some time.";
        Get "/api/health/checks/is-in-service" Any Anywhere CheckInService:
            "Whether the broker is not being drained.";
        Get "/api/health/checks/ready-to-serve-clients" Any Anywhere CheckInService: "Whether clients are served.";
        Get "/api/health/checks/node-is-quorum-critical" Any Anywhere CheckSingleNode:
            "Accepted: there is one node, which no other waits for.";
        Get "/api/health/checks/node-is-mirror-sync-critical" Any Anywhere CheckSingleNode:
            "Accepted: there is one node, which no other waits for.";
        Get "/api/health/checks/below-node-connection-limit" Any Anywhere CheckVhosts:
            "As `virtual-hosts`: one node has nothing else to check.";
        Get "/api/health/checks/reached-target-cluster-size" Any Anywhere CheckVhosts:
            "As `virtual-hosts`: one node has nothing else to check.";
        Get "/api/health/checks/metadata-store/initialized" Any Anywhere CheckVhosts:
            "As `virtual-hosts`: one node has nothing else to check.";
        Get "/api/health/checks/metadata-store/initialized/with-data" Any Anywhere CheckVhosts:
            "As `virtual-hosts`: one node has nothing else to check.";
        Get "/api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}"
            Any Anywhere CheckVhosts:
            "As `virtual-hosts`: a queue has one member.";
        Get "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}"
            Any Anywhere CheckVhosts:
            "As `virtual-hosts`: a queue has one member.";
        Get "/api/healthchecks/node" Any Anywhere CheckAlarms: "The older check: whether no alarm is in effect.";
        Get "/api/healthchecks/node/{node}" Any Anywhere CheckAlarms: "The older check of one node.";
    }
    "Federation and shovels" {
        Get "/api/federation-links" Monitoring Anywhere FederationLinks: "All federation links.";
        Get "/api/federation-links/state/down" Monitoring Anywhere FederationLinks: "Federation links that are down.";
        Get "/api/federation-links/{vhost}" Monitoring Vhost FederationLinks:
            "The federation links of a virtual host.";
        Get "/api/federation-links/{vhost}/state/down" Monitoring Vhost FederationLinks:
            "Those of a virtual host that are down.";
        Delete "/api/federation-links/vhost/{vhost}/{id}/{node}/restart" Policymaker Vhost FederationLinkRestart:
            "Has a federation link connect again, with all of its routes.";
        Get "/api/shovels" Monitoring Anywhere Shovels: "All shovels, which are parameters, and their state.";
        Get "/api/shovels/{vhost}" Monitoring Vhost Shovels: "The shovels of a virtual host.";
        Get "/api/shovels/{vhost}/{name}" Monitoring Vhost Shovel: "One shovel.";
        Get "/api/shovels/vhost/{vhost}/{name}" Monitoring Vhost Shovel: "One shovel.";
        Delete "/api/shovels/vhost/{vhost}/{name}" Policymaker Vhost ShovelDelete:
            "Deletes a shovel, which is its parameter.";
        Delete "/api/shovels/vhost/{vhost}/{name}/restart" Policymaker Vhost ShovelRestart:
            "Has a shovel connect again.";
        Put "/api/shovels/vhost/{vhost}/{name}/pause" Policymaker Vhost ShovelPause:
            "Has a shovel move nothing until it is resumed, also over restarts.";
        Put "/api/shovels/vhost/{vhost}/{name}/resume" Policymaker Vhost ShovelResume: "Has a paused shovel go on.";
    }
    "Streams" {
        Get "/api/stream/connections" Any Anywhere Streams: "Connections of the stream protocol: there are none.";
        Get "/api/stream/connections/{vhost}" Any Vhost Streams: "Those of a virtual host.";
        Get "/api/stream/publishers" Any Anywhere Streams: "Publishers of streams: there are none.";
        Get "/api/stream/publishers/{vhost}" Any Vhost Streams: "Those of a virtual host.";
        Get "/api/stream/publishers/{vhost}/{queue}" Any Vhost Streams: "Those of a stream.";
        Get "/api/stream/consumers" Any Anywhere Streams: "Consumers of streams: there are none.";
        Get "/api/stream/consumers/{vhost}" Any Vhost Streams: "Those of a virtual host.";
    }
    "Metrics" {
        Get "/metrics" Open Anywhere MetricsAggregated: "Prometheus metrics of the broker.";
        Get "/metrics/per-object" Open Anywhere MetricsPerObject:
            "Prometheus metrics of each queue, connection and channel.";
        Get "/metrics/detailed" Open Anywhere MetricsDetailed:
            "Prometheus metrics of the families and virtual hosts asked for.";
    }
};

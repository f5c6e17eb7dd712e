//! A route of the API as data: what is matched, who may ask, who answers.
//!
//! Owns: the words of the table in `routes`; documents, OPTIONS, 405 and the rules of access are made from them.

/// A method of HTTP that a route can have. HEAD is answered as GET without its body, OPTIONS from the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HttpMethod {
    Get,
    Put,
    Post,
    Delete,
}

impl HttpMethod {
    /// As HTTP writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }

    /// What a request line says; HEAD is a GET here.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "GET" | "HEAD" => Some(Self::Get),
            "PUT" => Some(Self::Put),
            "POST" => Some(Self::Post),
            "DELETE" => Some(Self::Delete),
            _ => None,
        }
    }

    /// Whether it changes something, so that a browser may not send it for another site.
    pub const fn is_change(self) -> bool {
        !matches!(self, Self::Get)
    }
}

/// Which tag of a user a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequiredTag {
    /// None: not even a login.
    Open,
    /// Any of `management`, `policymaker`, `monitoring` and `administrator`.
    Any,
    /// `policymaker` or `administrator`.
    Policymaker,
    /// `monitoring` or `administrator`.
    Monitoring,
    /// `administrator`.
    Administrator,
    /// Any of the four for what is the user's own; `monitoring` to see what others have, `administrator` to change it.
    Owner,
}

impl RequiredTag {
    /// As the reference page names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "no login",
            Self::Any => "any",
            Self::Policymaker => "policymaker",
            Self::Monitoring => "monitoring",
            Self::Administrator => "administrator",
            Self::Owner => "owner",
        }
    }
}

/// Whether a route also asks for a permission in the virtual host that its path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteScope {
    /// The user must have some permission in `{vhost}`; administrators need none.
    Vhost,
    /// The same, but `monitoring` needs none either: it sees every virtual host and every connection.
    VisibleVhost,
    /// The path names no virtual host, or the tag alone decides.
    Anywhere,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub method: HttpMethod,
    /// Segments between slashes; `{name}` is any one segment that is not empty, `{kind}` is `q` or `e`.
    pub pattern: &'static str,
    pub tag: RequiredTag,
    pub scope: RouteScope,
    pub handler: Handler,
    /// One sentence for the reference page.
    pub does: &'static str,
}

/// Who answers a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handler {
    AuthAttempts,
    AuthAttemptsReset,
    AuthSettings,
    Aliveness,
    Audit,
    Binding,
    BindingCreate,
    BindingDelete,
    Bindings,
    BindingsBetween,
    BindingsFrom,
    BindingsTo,
    BindingsOfQueue,
    Channel,
    Channels,
    ChannelsOfConnection,
    Alarms,
    CheckAlarms,
    CheckCertificate,
    CheckInService,
    CheckPortListener,
    CheckProtocolListener,
    CheckSingleNode,
    CheckVhosts,
    ClusterName,
    ClusterNameSet,
    Connection,
    ConnectionClose,
    ConnectionSessions,
    Connections,
    ConnectionsOfUser,
    ConnectionsOfUserClose,
    Consumers,
    Definitions,
    DefinitionsImport,
    DefinitionsOfVhost,
    DefinitionsOfVhostImport,
    DeprecatedFeatures,
    Exchange,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeRoute,
    Exchanges,
    Extensions,
    FeatureFlagEnable,
    FeatureFlags,
    FederationLinkRestart,
    FederationLinks,
    GlobalParameter,
    GlobalParameterClear,
    GlobalParameterSet,
    GlobalParameters,
    HashPassword,
    Login,
    Logout,
    Memory,
    MetricsAggregated,
    MetricsDetailed,
    MetricsPerObject,
    Node,
    Nodes,
    OperatorPolicies,
    OperatorPolicy,
    OperatorPolicyClear,
    OperatorPolicySet,
    Overview,
    PageDocument,
    PageFile,
    Parameter,
    ParameterClear,
    ParameterSet,
    Parameters,
    Permission,
    PermissionClear,
    PermissionSet,
    Permissions,
    PermissionsOfUser,
    PermissionsOfVhost,
    Policies,
    Policy,
    PolicyClear,
    PolicySet,
    Publish,
    Queue,
    QueueAction,
    QueueDeclare,
    QueueDelete,
    QueueGet,
    QueuePurge,
    Queues,
    RebalanceQueues,
    ResetStatistics,
    Shovel,
    ShovelDelete,
    ShovelPause,
    ShovelRestart,
    ShovelResume,
    Shovels,
    Streams,
    TopicPermission,
    TopicPermissionClear,
    TopicPermissionSet,
    TopicPermissions,
    TopicPermissionsOfUser,
    TopicPermissionsOfVhost,
    User,
    UserDelete,
    UserLimitClear,
    UserLimitSet,
    UserLimits,
    UserPut,
    Users,
    UsersBulkDelete,
    UsersWithoutPermissions,
    Vhost,
    VhostCreate,
    VhostDelete,
    VhostLimitClear,
    VhostLimitSet,
    VhostLimits,
    VhostProtect,
    VhostUnprotect,
    Vhosts,
    Whoami,
}

impl Handler {
    /// Whether it answers with Prometheus metrics.
    pub(crate) const fn is_metrics(self) -> bool {
        matches!(self, Self::MetricsAggregated | Self::MetricsDetailed | Self::MetricsPerObject)
    }
}

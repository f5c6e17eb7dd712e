//! Configuration: every setting of the broker, declared once.
//!
//! Enters: a TOML file, the environment, the words of the command line.  Leaves: a [`BrokerConfig`], or all that is
//!         wrong with it and where; its printed form, the help, the reference page.
//! Owns:   names, types, ranges, defaults and the order in which the sources override each other.
//!
//! Read `broker` first: it holds the declaration. `setting` says what kinds of values there are.
#![forbid(unsafe_code)]

mod accounts;
mod broker;
mod command_line;
mod environment;
mod field;
mod file;
pub mod limits;
mod load;
mod machine;
mod origin;
mod page;
mod policies;
mod print;
mod setting;
mod size;
mod tables;
mod time;

pub use accounts::{PasswordConfig, PermissionConfig, TopicPermissionConfig, UserConfig, VhostConfig};
pub use broker::{BrokerConfig, SETTINGS};
pub use field::{
    ClientCertificates, IdleProcessors, LogFormat, LogLevel, LoginFrom, MemoryLimit, RdmaPoll, RdmaToken, SanType,
    StoreSync, TlsVersion,
};
pub use load::{BrokerInvocation, DEFAULT_FILE};
pub use machine::Machine;
pub use origin::{ConfigError, ConfigFault, Origin};
pub use page::{HELP_NOTES, help, reference};
pub use policies::{PolicyConfig, PolicyTerm, TermValue};
pub use setting::{Setting, SettingKind, SettingValue, quoted};

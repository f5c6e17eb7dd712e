//! The types of a configuration's fields, beside numbers and texts, and how each is made of a value.

use crate::setting::SettingValue;
use crate::time;

/// How much the broker may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// A share of the machine, or of its control group if that has less.
    Percent(u8),
    /// Bytes.
    Bytes(u64),
}

/// The least important events that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// What the broker cannot mend.
    Error,
    /// What an operator should look into.
    Warn,
    /// What clients were refused, starts and stops.
    Info,
    /// Connections.
    Debug,
    /// Everything.
    Trace,
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// A line of JSON.
    Json,
}

/// The least version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2
    V12,
    /// 1.3
    V13,
}

/// Whether clients are asked for certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not.
    None,
    /// They are, and may have none.
    Optional,
    /// They are, and must have one.
    Required,
}

/// Whether a client over RDMA must show a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaToken {
    /// It must.
    Require,
    /// It need not.
    Allow,
}

/// What idle processors may do while messages flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleProcessors {
    /// What the system thinks fit.
    Sleep,
    /// Nothing that takes long to end.
    Doze,
    /// They stay awake.
    Poll,
}

/// How a thread waits for RDMA devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaPoll {
    /// It never sleeps.
    Busy,
    /// It looks a while before it sleeps, while that pays.
    Adaptive,
    /// It sleeps at once.
    Event,
}

/// What of a client's certificate is the name of its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFrom {
    /// The subject as text.
    DistinguishedName,
    /// The subject's common name.
    CommonName,
    /// An alternative name.
    AlternativeName,
}

/// Which alternative names count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SanType {
    /// Of hosts.
    Dns,
    /// Of mail.
    Email,
    /// URIs.
    Uri,
    /// IP addresses.
    Ip,
}

/// What a confirm waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreSync {
    /// The message is on the disk.
    Always,
    /// The message was written, and is on the disk after so many microseconds.
    Later { interval_us: u64 },
    /// Nothing.
    Never,
}

impl std::fmt::Display for StoreSync {
    /// As it is configured.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreSync::Always => to.write_str("always"),
            StoreSync::Later { interval_us } => to.write_str(&time::readable(*interval_us)),
            StoreSync::Never => to.write_str("never"),
        }
    }
}

/// The type of a field: made of a value that its kind has checked.
pub(crate) trait SettingField {
    /// The largest number that fits.
    const MOST: u64 = u64::MAX;
    fn from_value(value: Option<&SettingValue>) -> Self;
}

macro_rules! number_fields {
    ($($type:ty),+) => { $(
        impl SettingField for $type {
            const MOST: u64 = <$type>::MAX as u64;
            fn from_value(value: Option<&SettingValue>) -> Self {
                match value {
                    Some(SettingValue::Number(number)) => <$type>::try_from(*number).expect("the declaration bounds it"),
                    _ => unreachable!("a number has a number"),
                }
            }
        }
    )+ };
}

number_fields!(u8, u16, u32, u64);

impl SettingField for bool {
    fn from_value(value: Option<&SettingValue>) -> Self {
        match value {
            Some(SettingValue::Flag(flag)) => *flag,
            _ => unreachable!("a flag has a flag"),
        }
    }
}

impl SettingField for Vec<String> {
    fn from_value(value: Option<&SettingValue>) -> Self {
        match value {
            Some(SettingValue::List(items)) => items.clone(),
            _ => unreachable!("a list has items"),
        }
    }
}

fn text(value: Option<&SettingValue>) -> &str {
    match value {
        Some(SettingValue::Text(text)) => text,
        _ => unreachable!("a text has text"),
    }
}

impl SettingField for Option<String> {
    fn from_value(value: Option<&SettingValue>) -> Self {
        Some(text(value)).filter(|text| !text.is_empty()).map(str::to_owned)
    }
}

impl SettingField for MemoryLimit {
    fn from_value(value: Option<&SettingValue>) -> Self {
        match value {
            Some(SettingValue::Percent(percent)) => MemoryLimit::Percent(*percent),
            Some(SettingValue::Number(bytes)) => MemoryLimit::Bytes(*bytes),
            _ => unreachable!("a memory limit has a size"),
        }
    }
}

impl SettingField for LogLevel {
    fn from_value(value: Option<&SettingValue>) -> Self {
        match text(value) {
            "error" => LogLevel::Error,
            "warn" => LogLevel::Warn,
            "info" => LogLevel::Info,
            "debug" => LogLevel::Debug,
            _ => LogLevel::Trace,
        }
    }
}

impl SettingField for LogFormat {
    fn from_value(value: Option<&SettingValue>) -> Self {
        if text(value) == "json" { LogFormat::Json } else { LogFormat::Text }
    }
}

impl SettingField for TlsVersion {
    fn from_value(value: Option<&SettingValue>) -> Self {
        if text(value) == "1.3" { TlsVersion::V13 } else { TlsVersion::V12 }
    }
}

impl SettingField for ClientCertificates {
    fn from_value(value: Option<&SettingValue>) -> Self {
        match text(value) {
            "required" => ClientCertificates::Required,
            "optional" => ClientCertificates::Optional,
            _ => ClientCertificates::None,
        }
    }
}

impl SettingField for LoginFrom {
    fn from_value(value: Option<&SettingValue>) -> Self {
        match text(value) {
            "common_name" => LoginFrom::CommonName,
            "subject_alternative_name" => LoginFrom::AlternativeName,
            _ => LoginFrom::DistinguishedName,
        }
    }
}

impl SettingField for SanType {
    fn from_value(value: Option<&SettingValue>) -> Self {
        match text(value) {
            "email" => SanType::Email,
            "uri" => SanType::Uri,
            "ip" => SanType::Ip,
            _ => SanType::Dns,
        }
    }
}

impl SettingField for RdmaToken {
    fn from_value(value: Option<&SettingValue>) -> Self {
        if text(value) == "allow" { RdmaToken::Allow } else { RdmaToken::Require }
    }
}

impl SettingField for StoreSync {
    fn from_value(value: Option<&SettingValue>) -> Self {
        match text(value) {
            "always" => StoreSync::Always,
            "never" => StoreSync::Never,
            time => StoreSync::Later { interval_us: time::parse_us(time).expect("the declaration bounds it") },
        }
    }
}

impl SettingField for IdleProcessors {
    fn from_value(value: Option<&SettingValue>) -> Self {
        match text(value) {
            "doze" => IdleProcessors::Doze,
            "poll" => IdleProcessors::Poll,
            _ => IdleProcessors::Sleep,
        }
    }
}

impl SettingField for RdmaPoll {
    fn from_value(value: Option<&SettingValue>) -> Self {
        match text(value) {
            "busy" => RdmaPoll::Busy,
            "event" => RdmaPoll::Event,
            _ => RdmaPoll::Adaptive,
        }
    }
}

//! The configuration as a file.
//!
//! Enters: a configuration.  Leaves: TOML that makes the same configuration again.
//! Owns:   the comments: what a setting does, what it takes, where its value came from.

use crate::accounts::Accounts;
use crate::broker::{BrokerConfig, SETTINGS};
use crate::origin::Origin;
use crate::page::wrapped;
use crate::setting::{SettingKind, SettingValue};
use crate::size;
use std::fmt::Write;

impl BrokerConfig {
    /// The effective configuration with comments. It holds the users' passwords.
    pub fn to_toml(&self) -> String {
        let mut out = String::from("# The configuration of harrier broker. It holds the passwords of its users.\n");
        let mut section = "";
        for (setting, (value, origin)) in SETTINGS.iter().zip(&self.values) {
            if section != setting.section {
                section = setting.section;
                let _infallible = write!(out, "\n# == {section}\n");
            }
            out.push('\n');
            for line in wrapped(setting.help.trim(), 116) {
                let _infallible = writeln!(out, "# {line}");
            }
            let default = setting.default_value().to_toml();
            let from = match origin {
                Origin::Default => format!("Default: {default}."),
                other => format!("Default: {default}. Set by {other}."),
            };
            let _infallible = writeln!(out, "# It takes {}. {from}", setting.kind.form());
            let size = match (setting.kind, value) {
                (SettingKind::Bytes { .. } | SettingKind::Memory, SettingValue::Number(bytes)) => {
                    format!("  # {}", size::readable(*bytes))
                }
                _ => String::new(),
            };
            let _infallible = writeln!(out, "{} = {}{size}", setting.name, value.to_toml());
        }
        let _infallible = write!(out, "\n# == Virtual hosts, users, permissions, policies\n");
        out.push_str(&Accounts::print(self));
        out
    }

    /// The effective configuration without comments: equal for equal configurations.
    pub fn to_bare_toml(&self) -> String {
        let settings = SETTINGS.iter().zip(&self.values);
        let mut out: String =
            settings.map(|(setting, (value, _))| format!("{} = {}\n", setting.name, value.to_toml())).collect();
        out.push_str(&Accounts::print(self));
        out
    }
}

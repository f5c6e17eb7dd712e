//! A profile: the measurements of a calibration and the costs fitted to them, as stored in a file.

use serde::{Deserialize, Serialize};

use crate::limits::OBSERVATIONS_MAX;
use crate::{CostSet, Observation};

/// Value of the field `schema`.
pub const SCHEMA: &str = "harrier-profile";
/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// How nodes were placed on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Each had its own: rates are costs.
    OwnHosts,
    /// All shared one host's cores: processor time is a cost, rates are not.
    OneHost,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`].
    pub version: u32,
    /// How nodes were placed on hosts.
    pub sharing: Sharing,
    /// Cores of one host.
    pub cores: u32,
    /// Speed of a host's link, in each direction, if one was set.
    pub link_bits_per_s: Option<u64>,
    /// The program that measured, and its version.
    pub made_by: String,
    /// The measurements.
    pub observations: Vec<Observation>,
    /// The costs fitted to them.
    pub costs: Vec<CostSet>,
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileError {
    /// It has another schema.
    Schema(String),
    /// It has another version.
    Version(u32),
    /// It is inconsistent: how.
    Inconsistent(String),
}

impl std::fmt::Display for ProfileError {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProfileError::Schema(schema) => write!(to, "its schema is '{schema}', not '{SCHEMA}'"),
            ProfileError::Version(version) => {
                write!(to, "it has version {version}; this program reads version {VERSION}: calibrate again")
            }
            ProfileError::Inconsistent(why) => to.write_str(why),
        }
    }
}

impl std::error::Error for ProfileError {}

impl Profile {
    /// Checks that this program can use it.
    ///
    /// # Errors
    /// Another schema or version, or invalid values.
    pub fn check(&self) -> Result<(), ProfileError> {
        if self.schema != SCHEMA {
            return Err(ProfileError::Schema(self.schema.clone()));
        }
        if self.version != VERSION {
            return Err(ProfileError::Version(self.version));
        }
        let complaint = if self.cores == 0 {
            Some("its hosts have no cores".to_owned())
        } else if self.link_bits_per_s == Some(0) {
            Some("its links have no speed".to_owned())
        } else if self.observations.len() > OBSERVATIONS_MAX {
            Some(format!("it has more than {OBSERVATIONS_MAX} observations"))
        } else {
            let observed = self.observations.iter().find_map(Observation::inconsistency);
            observed.or_else(|| self.costs.iter().find_map(CostSet::inconsistency))
        };
        complaint.map_or(Ok(()), |why| Err(ProfileError::Inconsistent(why)))
    }

    /// The costs for a transport and a reliability.
    pub fn costs_of(&self, transport: &str, ack: &str) -> Option<&CostSet> {
        self.costs.iter().find(|set| set.transport == transport && set.ack == ack)
    }
}

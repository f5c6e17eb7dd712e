//! Admin command that tells what the files of the configuration state.

use super::{AdminCommand, AdminError, AdminServer};
use definitions::Json;

impl AdminServer {
    /// The names of what the configuration file and the definitions file state.
    pub(super) fn stated(&mut self, _: &AdminCommand<'_>) -> Result<Json, AdminError> {
        Ok(self.stated.to_json())
    }
}

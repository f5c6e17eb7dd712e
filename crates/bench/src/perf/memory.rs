//! The broker's resident memory when idle, and per connection, queue, binding and message.
//!
//! Each is measured with a fresh broker and fewer objects than `harrier bench scale` creates.

use super::PerfRun;
use crate::scale::{ScaledObject, cost, settled_bytes};
use load::perf_table::{GoalBound, PerfRow};
use report::stdout::put;

/// Few enough for the default limit of open files.
const THINGS: [(ScaledObject, usize); 4] = [
    (ScaledObject::Connections, 800),
    (ScaledObject::Queues, 20_000),
    (ScaledObject::Bindings, 200_000),
    (ScaledObject::Messages, 1_000_000),
];

impl PerfRun {
    pub(super) fn memory(&mut self) -> Result<(), String> {
        let at_rest = settled_bytes(&self.broker("harrier", None)?)? as f64 / f64::from(1 << 20);
        self.memory_row("memory at rest, MiB", 15.0, at_rest, String::new())?;
        for (object, count) in THINGS {
            let (name, most) = object.goal();
            let broker = self.broker("harrier", None)?;
            let made = cost(&broker, object, count)?;
            // On shutdown the broker waits for its clients, so they go first.
            drop(made.clients);
            self.memory_row(&format!("memory of one {name}, bytes"), most, made.bytes_each, format!("{count} made"))?;
        }
        Ok(())
    }

    fn memory_row(&mut self, what: &str, most: f64, value: f64, detail: String) -> Result<(), String> {
        put(&format!("  {what:<52} {value:>10.1}\n"))?;
        self.record.rows.push(PerfRow::new(what, GoalBound::AtMost(most), Some(value), detail));
        Ok(())
    }
}

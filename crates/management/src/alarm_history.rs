//! Alarms of memory and of disk space: when each was raised, and when it ended.
//!
//! Owns: the bound on how many are kept. One that is in effect stays.

use crate::json_object::{JsonObject, iso_time};
use crate::limits::ALARMS_KEPT_MAX;
use definitions::Json;
use std::collections::VecDeque;

/// What is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmKind {
    Memory,
    Disk,
}

impl AlarmKind {
    /// As RabbitMQ's health check calls it.
    pub const fn name(self) -> &'static str {
        match self {
            AlarmKind::Memory => "memory",
            AlarmKind::Disk => "disk",
        }
    }
}

/// An alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptAlarm {
    kind: AlarmKind,
    /// Milliseconds since the epoch.
    raised_ms: u64,
    /// `None`: it is in effect.
    cleared_ms: Option<u64>,
}

/// The last alarms.
#[derive(Debug, Default)]
pub struct AlarmHistory {
    alarms: VecDeque<KeptAlarm>,
}

impl AlarmHistory {
    /// Takes what is known of an alarm at a time: whether it is in effect, and whether it was raised since this was last called,
    /// which it may have been and have ended again.
    pub fn note(&mut self, kind: AlarmKind, was_raised: bool, is_raised: bool, at_ms: u64) {
        let known = self.alarms.iter_mut().rfind(|alarm| alarm.kind == kind && alarm.cleared_ms.is_none());
        let is_new = was_raised || (is_raised && known.is_none());
        if let Some(known) = known
            && (was_raised || !is_raised)
        {
            known.cleared_ms = Some(at_ms);
        }
        if is_new {
            self.make_room();
            let cleared_ms = (!is_raised).then_some(at_ms);
            self.alarms.push_back(KeptAlarm { kind, raised_ms: at_ms, cleared_ms });
        }
    }

    fn make_room(&mut self) {
        if self.alarms.len() >= ALARMS_KEPT_MAX
            && let Some(oldest) = self.alarms.iter().position(|alarm| alarm.cleared_ms.is_some())
        {
            self.alarms.remove(oldest);
        }
    }

    /// Each as an object, the newest first.
    pub fn entries(&self, node: &str) -> impl Iterator<Item = Json> {
        self.alarms.iter().rev().map(move |alarm| {
            let cleared = alarm.cleared_ms.map_or(Json::Null, |at_ms| Json::Text(iso_time(at_ms)));
            JsonObject::new()
                .text("node", node)
                .text("resource", alarm.kind.name())
                .text("raised_at", &iso_time(alarm.raised_ms))
                .put("cleared_at", cleared)
                .build()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{AlarmHistory, AlarmKind::*, KeptAlarm};
    use crate::limits::ALARMS_KEPT_MAX;

    #[test]
    fn an_alarm_lasts_from_when_it_is_raised_to_when_it_ends() {
        let mut history = AlarmHistory::default();
        let mut note = |kind, was_raised, is_raised, at_ms, expected: &[(u64, Option<u64>)]| {
            history.note(kind, was_raised, is_raised, at_ms);
            let found: Vec<_> = history.alarms.iter().map(|alarm| (alarm.raised_ms, alarm.cleared_ms)).collect();
            assert_eq!(found, expected, "at {at_ms}");
        };
        note(Memory, false, false, 1, &[]);
        note(Memory, true, true, 2, &[(2, None)]);
        note(Disk, false, true, 3, &[(2, None), (3, None)]);
        note(Memory, false, true, 4, &[(2, None), (3, None)]);
        note(Memory, false, false, 5, &[(2, Some(5)), (3, None)]);
        note(Memory, false, false, 6, &[(2, Some(5)), (3, None)]);
        // One that has ended before anybody looked.
        note(Memory, true, false, 7, &[(2, Some(5)), (3, None), (7, Some(7))]);
        // One that ended and was raised again between two looks.
        note(Disk, true, true, 8, &[(2, Some(5)), (3, Some(8)), (7, Some(7)), (8, None)]);
        // And one that did so twice.
        note(Disk, true, false, 9, &[(2, Some(5)), (3, Some(8)), (7, Some(7)), (8, Some(9)), (9, Some(9))]);
    }

    #[test]
    fn so_many_are_kept_and_one_that_is_in_effect_among_them() {
        let mut history = AlarmHistory::default();
        history.note(Disk, false, true, 1);
        for at_ms in 2..2_000 {
            history.note(Memory, true, false, at_ms);
        }
        assert_eq!(history.alarms.len(), ALARMS_KEPT_MAX);
        assert_eq!(history.alarms[0], KeptAlarm { kind: Disk, raised_ms: 1, cleared_ms: None });
        assert_eq!(history.alarms.back().map(|alarm| alarm.raised_ms), Some(1_999));
        let newest = history.entries("rabbit@h").next().map(|entry| entry.line());
        let time = "1970-01-01T00:00:01.999+00:00";
        let expected =
            format!(r#"{{"node":"rabbit@h","resource":"memory","raised_at":"{time}","cleared_at":"{time}"}}"#);
        assert_eq!(newest, Some(expected));
    }
}

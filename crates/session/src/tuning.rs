//! Tuning: agreeing on channels, frame size and heartbeat.
//!
//! Enters: what one side proposes and the other answers.  Leaves: the settled values, or a refusal.
//! Owns:   the rules of `connection.tune`, as RabbitMQ 3.10 applies them.

use crate::{FaultScope, ProtocolFault, SessionLimits, limits::FRAME_BYTES_CEILING};
use wire::{
    ChannelNumber, ReplyCode,
    frame::FRAME_BYTES_MIN,
    method::connection::{Tune, TuneOk},
};

/// Settled limits of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Channels that may be open; 0 for no limit but the protocol's.
    pub channel_max: u16,
    /// Bytes of a frame, overhead included; never 0.
    pub frame_bytes_max: u32,
    /// Seconds between heartbeats; 0 for none.
    pub heartbeat_s: u16,
}

/// What a server proposes.
pub(crate) fn proposal(limits: &SessionLimits) -> Tune {
    Tune { channel_max: limits.channel_max, frame_max: limits.any_frame_bytes_max(), heartbeat: limits.heartbeat_s }
}

/// Checks a client's answer. RabbitMQ takes 0, "no limit", for more than any limit; the heartbeat is the client's.
pub(crate) fn settle(limits: &SessionLimits, answer: &TuneOk) -> Result<Tuning, ProtocolFault> {
    check("frame_max", "", FRAME_BYTES_MIN, limits.any_frame_bytes_max(), answer.frame_max)?;
    check("channel_max", " (no limit)", 1, limits.channel_max.into(), answer.channel_max.into())?;
    Ok(Tuning { channel_max: answer.channel_max, frame_bytes_max: answer.frame_max, heartbeat_s: answer.heartbeat })
}

fn check(field: &str, zero: &str, least: u32, most: u32, value: u32) -> Result<(), ProtocolFault> {
    let detail = if value == 0 { zero } else { "" };
    let refusal = if value != 0 && value < least {
        format!("negotiated {field} = {value}{detail} is lower than the minimum allowed value ({least})")
    } else if most != 0 && (value == 0 || value > most) {
        format!("negotiated {field} = {value}{detail} is higher than the maximum allowed value ({most})")
    } else {
        return Ok(());
    };
    let fault = ProtocolFault::new(ReplyCode::NotAllowed, ChannelNumber::CONNECTION, Tune::ID, &refusal);
    debug_assert_eq!(fault.scope, FaultScope::Connection);
    Err(fault)
}

/// A client's answer: the lower of what is proposed and what it wants, 0 counting as no limit.
pub(crate) fn answer(proposed: &Tune, wanted: &SessionLimits) -> Tuning {
    fn lower<T: Ord + Default>(one: T, other: T) -> T {
        if one == T::default() || (other != T::default() && other < one) { other } else { one }
    }
    Tuning {
        channel_max: lower(proposed.channel_max, wanted.channel_max),
        frame_bytes_max: lower(proposed.frame_max, wanted.any_frame_bytes_max())
            .clamp(FRAME_BYTES_MIN, FRAME_BYTES_CEILING),
        heartbeat_s: lower(proposed.heartbeat, wanted.heartbeat_s),
    }
}

#[cfg(test)]
mod tests {
    use super::{Tuning, answer, settle};
    use crate::SessionLimits;
    use wire::method::connection::{Tune, TuneOk};

    #[test]
    fn a_server_refuses_what_rabbitmq_refuses() {
        let check = |channel_max, frame_max, expect: &str| {
            let outcome = settle(&SessionLimits::default(), &TuneOk { channel_max, frame_max, heartbeat: 7 });
            let got = outcome.map_or_else(|fault| fault.text, |tuning| format!("ok {}", tuning.heartbeat_s));
            assert_eq!(got, expect, "channel_max {channel_max}, frame_max {frame_max}");
        };
        check(2047, 131_072, "ok 7");
        check(1, 4096, "ok 7");
        check(1, 4095, "NOT_ALLOWED - negotiated frame_max = 4095 is lower than the minimum allowed value (4096)");
        check(
            1,
            131_073,
            "NOT_ALLOWED - negotiated frame_max = 131073 is higher than the maximum allowed value (131072)",
        );
        check(1, 0, "NOT_ALLOWED - negotiated frame_max = 0 is higher than the maximum allowed value (131072)");
        check(
            0,
            4096,
            "NOT_ALLOWED - negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
        );
        check(
            2048,
            4096,
            "NOT_ALLOWED - negotiated channel_max = 2048 is higher than the maximum allowed value (2047)",
        );
    }

    #[test]
    fn a_client_takes_the_lower_and_zero_is_no_limit() {
        let proposed = Tune { channel_max: 0, frame_max: 0, heartbeat: 60 };
        let wanted = SessionLimits { heartbeat_s: 0, ..SessionLimits::default() };
        let settled = Tuning { channel_max: 2047, frame_bytes_max: 131_072, heartbeat_s: 60 };
        assert_eq!(answer(&proposed, &wanted), settled);
        let proposed = Tune { channel_max: 100, frame_max: 8192, heartbeat: 60 };
        let settled = Tuning { channel_max: 100, frame_bytes_max: 8192, heartbeat_s: 5 };
        assert_eq!(answer(&proposed, &SessionLimits { heartbeat_s: 5, ..wanted }), settled);
    }
}

//! A connection from its first byte to its last, both ends.
//!
//! Owns:   the promise that our two ends understand each other, and who says what when.

use super::{method, whole};
use crate::{
    Capabilities, Event, FaultScope, Greeting, Inbound, Outbound, ProtocolFault, SessionLimits,
    drive::{EndpointPair, TestEndpoint},
};
use slab::Pool;
use std::sync::Arc;
use wire::{
    ChannelNumber, ReplyCode, ShortStr, Table, TableRef, Value,
    method::{channel, connection},
};

fn starts(log: &[String]) -> Vec<&str> {
    log.iter().map(|line| line.split([' ', '(']).next().unwrap_or_default()).collect()
}

#[test]
fn client_and_server_open_and_close_a_connection() {
    let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
    assert_eq!(starts(&pair.client.log), ["Start", "Tune", "OpenOk"]);
    assert_eq!(starts(&pair.server.log), ["Login", "Tuned", "Open"]);
    assert_eq!(pair.open_channel(&mut whole()), ChannelNumber(1));
    assert_eq!(pair.open_channel(&mut whole()), ChannelNumber(2));
    let TestEndpoint { inbound, out, pool, .. } = &mut pair.client;
    inbound.close_channel(ChannelNumber(1), 200, "done", out, pool);
    pair.pump(&mut whole());
    assert_eq!(pair.client.log.last().map(String::as_str), Some("ChannelCloseOk { channel: ChannelNumber(1) }"));
    assert_eq!(starts(&pair.server.log).last(), Some(&"ChannelClosed"));
    assert_eq!(pair.open_channel(&mut whole()), ChannelNumber(1), "the number is free again");
    let TestEndpoint { inbound, out, pool, .. } = &mut pair.server;
    inbound.close(320, "CONNECTION_FORCED - going home", out, pool);
    pair.pump(&mut whole());
    assert_eq!(pair.server.log.last().map(String::as_str), Some("CloseOk"));
    assert!(pair.client.log.last().is_some_and(|line| line.contains("320") && line.contains("going home")));
    assert!(pair.client.inbound.is_done() && pair.server.inbound.is_done());
}

#[test]
fn both_ends_obey_the_lower_limits() {
    let mut pair = EndpointPair {
        client: TestEndpoint::client(
            &SessionLimits { channel_max: 2, frame_bytes_max: 5000, heartbeat_s: 9, ..SessionLimits::default() },
            true,
        ),
        server: TestEndpoint::server(&SessionLimits::default(), true),
    };
    pair.pump(&mut whole());
    let tuned = "Tuned(Tuning { channel_max: 2, frame_bytes_max: 5000, heartbeat_s: 9 })";
    assert_eq!(pair.server.log[1], tuned);
    pair.open_channel(&mut whole());
    pair.open_channel(&mut whole());
    let TestEndpoint { inbound, out, pool, .. } = &mut pair.client;
    assert_eq!(inbound.open_channel(out, pool), None, "a client counts its channels");
    let text =
        "Connection 530 0.0 #3 NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)";
    pair.server.receive(&method(ChannelNumber(3), channel::Open {}), &mut whole());
    assert_eq!(pair.server.log.last().map(String::as_str), Some(text));
}

/// A server at which a client has just presented itself.
fn at_login(client_properties: &Table) -> (Inbound, Outbound, Pool) {
    let greeting = Arc::new(Greeting::new(&Table::new(), "PLAIN"));
    let (mut inbound, mut out, pool) =
        (Inbound::server(&SessionLimits::default(), greeting), Outbound::new(), Pool::default());
    let client_properties = client_properties.to_bytes();
    let mut bytes = wire::PROTOCOL_HEADER.to_vec();
    bytes.extend_from_slice(&method(
        ChannelNumber::CONNECTION,
        connection::StartOk {
            client_properties: TableRef::new(&client_properties),
            mechanism: ShortStr::literal("PLAIN"),
            response: b"\0guest\0wrong",
            locale: ShortStr::literal("en_US"),
        },
    ));
    match inbound.next(&mut &bytes[..], &mut out, &pool) {
        Ok(Some(Event::Login { response: b"\0guest\0wrong", .. })) => {}
        other => panic!("{other:?}"),
    }
    out.clear();
    (inbound, out, pool)
}

#[test]
fn a_refused_login_is_told_to_those_who_can_hear_it() {
    let reason = "user 'guest' - invalid credentials";
    let (mut inbound, mut out, pool) = at_login(&Table::new());
    let fault = inbound.login_refused(ShortStr::literal("PLAIN"), reason, &mut out, &pool);
    assert_eq!((fault.scope, out.bytes(), inbound.is_done()), (FaultScope::Link, 0, true));
    assert_eq!(fault.text, format!("ACCESS_REFUSED - PLAIN login refused: {reason}"));

    let capabilities = Value::Table(Capabilities::AUTHENTICATION_FAILURE_CLOSE.to_table());
    let properties = Table::new().with("capabilities", capabilities).expect("a short name");
    let (mut inbound, mut out, pool) = at_login(&properties);
    inbound.login_refused(ShortStr::literal("PLAIN"), reason, &mut out, &pool);
    let sent: Vec<u8> = out.gather().parts().flatten().copied().collect();
    let expect = method(
        ChannelNumber::CONNECTION,
        connection::Close {
            reply_code: 403,
            reply_text: ShortStr::literal(
                "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.",
            ),
            class_id: 0,
            method_id: 0,
        },
    );
    assert_eq!(sent, expect);
}

#[test]
fn a_challenge_takes_another_round() {
    let (mut inbound, mut out, pool) = at_login(&Table::new());
    inbound.login_challenged(b"who?", &mut out, &pool);
    let answer = method(ChannelNumber::CONNECTION, connection::SecureOk { response: b"me" });
    assert!(matches!(
        inbound.next(&mut &answer[..], &mut out, &pool),
        Ok(Some(Event::LoginResponse { response: b"me" }))
    ));
    inbound.login_accepted(&mut out, &pool);
}

#[test]
fn an_owner_may_answer_closes_itself() {
    let limits = SessionLimits { owner_answers_close: true, ..SessionLimits::default() };
    let mut pair = EndpointPair::open(&limits, true, &mut whole());
    pair.open_channel(&mut whole());
    let TestEndpoint { inbound, out, pool, .. } = &mut pair.client;
    inbound.close_channel(ChannelNumber(1), 200, "", out, pool);
    pair.pump(&mut whole());
    assert_ne!(pair.client.log.last().map(String::as_str), Some("ChannelCloseOk { channel: ChannelNumber(1) }"));
    let TestEndpoint { inbound, out, pool, .. } = &mut pair.server;
    inbound.answer_channel_close(ChannelNumber(1), out, pool);
    pair.pump(&mut whole());
    assert_eq!(pair.client.log.last().map(String::as_str), Some("ChannelCloseOk { channel: ChannelNumber(1) }"));
}

#[test]
fn a_refused_channel_drops_what_the_client_sent_meanwhile() {
    let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
    pair.open_channel(&mut whole());
    let mut sent = super::publish(ChannelNumber(1));
    sent.extend_from_slice(&super::header(ChannelNumber(1), 60, 40_000, &[0, 0]));
    sent.extend_from_slice(&super::frame(3, ChannelNumber(1), &super::pattern(20_000))[..9_000]);
    pair.server.receive(&sent, &mut whole());
    let refusal = ProtocolFault::new(ReplyCode::NotFound, ChannelNumber(1), (60, 40), "no exchange 'x' in vhost '/'");
    let TestEndpoint { inbound, out, pool, log, .. } = &mut pair.server;
    assert!(!inbound.fail(&refusal, out, pool));
    log.clear();
    let mut rest = super::frame(3, ChannelNumber(1), &super::pattern(20_000))[9_000..].to_vec();
    rest.extend_from_slice(&super::frame(3, ChannelNumber(1), &super::pattern(20_000)));
    rest.extend_from_slice(&super::publish(ChannelNumber(1)));
    rest.extend_from_slice(&super::header(ChannelNumber(1), 60, 1, &[0, 0]));
    rest.extend_from_slice(&super::frame(3, ChannelNumber(1), b"x"));
    rest.extend_from_slice(&method(ChannelNumber(1), channel::CloseOk {}));
    rest.extend_from_slice(&method(ChannelNumber(1), channel::Open {}));
    pair.server.receive(&rest, &mut || 777);
    assert_eq!(
        pair.server.log,
        ["ChannelCloseOk { channel: ChannelNumber(1) }", "ChannelOpened { channel: ChannelNumber(1) }"]
    );
}

/// A broker's refusal may come late: nothing is said twice, or to nobody.
#[test]
fn a_late_refusal_is_dropped() {
    let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
    pair.open_channel(&mut whole());
    let TestEndpoint { inbound, out, pool, .. } = &mut pair.client;
    inbound.close_channel(ChannelNumber(1), 200, "", out, pool);
    inbound.close_channel(ChannelNumber(1), 200, "", out, pool);
    assert_eq!(inbound.open_channel(out, pool), Some(ChannelNumber(2)));
    pair.pump(&mut whole());
    let TestEndpoint { inbound, out, pool, .. } = &mut pair.server;
    let late = |channel, code| ProtocolFault::new(code, channel, (50, 10), "too late");
    assert!(!inbound.fail(&late(ChannelNumber(1), ReplyCode::NotFound), out, pool));
    assert!(out.is_empty(), "channel 1 is gone");
    assert!(!inbound.fail(&late(ChannelNumber(2), ReplyCode::NotFound), out, pool));
    let bytes = out.bytes();
    inbound.fail(&late(ChannelNumber(2), ReplyCode::NotFound), out, pool);
    assert_eq!(out.bytes(), bytes, "channel 2 is being closed");
    inbound.fail(&late(ChannelNumber(2), ReplyCode::NotAllowed), out, pool);
    let bytes = out.bytes();
    inbound.fail(&late(ChannelNumber(2), ReplyCode::NotAllowed), out, pool);
    inbound.close(200, "", out, pool);
    assert_eq!(out.bytes(), bytes, "the connection is being closed");
    pair.pump(&mut whole());
    assert_eq!(pair.server.log.last().map(String::as_str), Some("CloseOk"));
}

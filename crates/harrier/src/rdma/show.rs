//! Prints findings as lines for people and as JSON for programs.

use super::findings::{DeviceFindings, Findings, PortFindings, Problem};
use super::self_test::{SelfTest, SelfTestStep};
use ib::{GidEntry, LinkLayer, PortState};
use serde_json::{Value, json};
use std::fmt::Write;
use std::net::Ipv6Addr;

/// A problem begins with `FAILED`, and the next line has the remedy.
pub fn lines(findings: &Findings) -> String {
    let mut text = String::new();
    let mut put = |indent: usize, line: &str| {
        // Writing to a string cannot fail.
        let _always = writeln!(text, "{:indent$}{line}", "");
    };
    match findings.locked_bytes_max {
        None => put(0, "locked memory: no limit"),
        Some(bytes) => put(0, &format!("locked memory: {bytes} bytes")),
    }
    problems(&mut put, 0, "warning", &findings.warnings);
    for device in &findings.devices {
        put(0, &format!("device {}{}", device.name, facts(device)));
        problems(&mut put, 2, "FAILED", &device.problems);
        for found in &device.ports {
            let port = &found.port;
            let (state, layer) = (state(port.state), layer(port.link_layer));
            put(2, &format!("port {}: {state}, {layer}, packets of {} bytes", port.number, port.mtu_bytes));
            for entry in &found.gids {
                put(4, &gid(entry));
            }
            problems(&mut put, 4, "FAILED", &found.problems);
            for walk in &found.self_tests {
                put(4, &format!("over {}:", walk.address));
                for step in &walk.steps {
                    match &step.outcome {
                        Ok(took) => put(6, &format!("{:<12} ok, {:.1} ms", step.name, took.as_secs_f64() * 1e3)),
                        Err(problem) => {
                            put(6, &format!("{:<12} FAILED: {}", step.name, problem.what));
                            put(6, &format!("{:<12} needed: {}", "", problem.fix));
                        }
                    }
                }
            }
        }
    }
    problems(&mut put, 0, "FAILED", &findings.problems);
    put(0, if findings.usable() { "RDMA can be used" } else { "RDMA cannot be used, or not on every port" });
    text
}

fn problems(put: &mut impl FnMut(usize, &str), indent: usize, word: &str, problems: &[Problem]) {
    for problem in problems {
        put(indent, &format!("{word}: {}", problem.what));
        put(indent, &format!("needed: {}", problem.fix));
    }
}

fn facts(device: &DeviceFindings) -> String {
    device.facts.as_ref().map_or(String::new(), |facts| {
        format!(
            ": {} queue pairs of {} requests, {} shared receive queues of {}, {} regions, {} READs at once",
            facts.queue_pairs_max,
            facts.work_requests_max,
            facts.shared_receive_queues_max,
            facts.shared_receive_wr_max,
            facts.regions_max,
            facts.initiator_depth_max,
        )
    })
}

fn state(state: PortState) -> &'static str {
    match state {
        PortState::Down => "down",
        PortState::Init => "without an address",
        PortState::Armed => "armed",
        PortState::Active => "active",
        PortState::Unknown => "in a state that is not known",
    }
}

fn layer(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::Infiniband => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
        LinkLayer::Unknown => "unknown link",
    }
}

fn gid(entry: &GidEntry) -> String {
    let also = [entry.kind.as_deref(), entry.interface.as_deref()];
    let also: Vec<_> = also.into_iter().flatten().collect();
    format!("GID {}: {} {}", entry.index, Ipv6Addr::from(entry.gid), also.join(", ")).trim_end().to_owned()
}

/// One object; `usable` summarizes it.
pub fn json(findings: &Findings) -> String {
    let value = json!({
        "usable": findings.usable(),
        "locked_bytes_max": findings.locked_bytes_max,
        "problems": problems_json(&findings.problems),
        "warnings": problems_json(&findings.warnings),
        "devices": findings.devices.iter().map(device_json).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

fn problems_json(problems: &[Problem]) -> Value {
    problems.iter().map(|problem| json!({ "what": problem.what, "needed": problem.fix })).collect()
}

fn device_json(device: &DeviceFindings) -> Value {
    let facts = device.facts.as_ref().map(|facts| {
        json!({
            "firmware": facts.firmware,
            "queue_pairs_max": facts.queue_pairs_max,
            "work_max": facts.work_requests_max,
            "pieces_max": facts.sge_max,
            "completion_queues_max": facts.completion_queues_max,
            "completions_max": facts.completions_max,
            "regions_max": facts.regions_max,
            "region_bytes_max": facts.region_bytes_max,
            "shared_receive_queues_max": facts.shared_receive_queues_max,
            "shared_receives_max": facts.shared_receive_wr_max,
            "reads_served_max": facts.responder_resources_max,
            "reads_asked_max": facts.initiator_depth_max,
        })
    });
    json!({
        "name": device.name,
        "facts": facts,
        "problems": problems_json(&device.problems),
        "ports": device.ports.iter().map(port_json).collect::<Vec<_>>(),
    })
}

fn port_json(found: &PortFindings) -> Value {
    let gid = |entry: &GidEntry| {
        let address = Ipv6Addr::from(entry.gid).to_string();
        json!({ "index": entry.index, "gid": address, "kind": entry.kind, "interface": entry.interface })
    };
    json!({
        "number": found.port.number,
        "state": state(found.port.state),
        "layer": layer(found.port.link_layer),
        "mtu_bytes": found.port.mtu_bytes,
        "message_bytes_max": found.port.message_bytes_max,
        "lid": found.port.lid,
        "gids": found.gids.iter().map(gid).collect::<Vec<_>>(),
        "problems": problems_json(&found.problems),
        "walks": found.self_tests.iter().map(self_test_json).collect::<Vec<_>>(),
    })
}

fn self_test_json(walk: &SelfTest) -> Value {
    let step = |step: &SelfTestStep| match &step.outcome {
        Ok(took) => json!({ "step": step.name, "ms": took.as_secs_f64() * 1e3 }),
        Err(problem) => json!({ "step": step.name, "what": problem.what, "needed": problem.fix }),
    };
    json!({ "address": walk.address.to_string(), "steps": walk.steps.iter().map(step).collect::<Vec<_>>() })
}

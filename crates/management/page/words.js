// The state of a queue or a connection in words: why does it move, or not.
//
// Enters: an object of the API.  Leaves: `{tone, text}`, tone being `good`, `idle`, `warn` or `bad`.
// Never:  touches the document, so that it can be tested without one; names in the text are as they are.

const of = (object, key) => object.message_stats?.[`${key}_details`]?.rate ?? 0;
const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const say = (tone, text) => ({ tone, text });

/** Of consumers that need acknowledgements and have taken as many messages as they may. */
export function areAtPrefetch(queue, consumers) {
  const limited = consumers.filter((one) => one.ack_required && one.prefetch_count > 0);
  const allowed = limited.reduce((sum, one) => sum + one.prefetch_count, 0);
  return consumers.length > 0 && limited.length === consumers.length && queue.messages_unacknowledged >= allowed;
}

/** Of a queue; `consumers` are its consumers where they are known. */
export function queueState(queue, consumers) {
  const incoming = of(queue, "publish");
  const outgoing = of(queue, "deliver_get");
  const ready = queue.messages_ready ?? 0;
  const unacknowledged = queue.messages_unacknowledged ?? 0;
  if (queue.state === "down") return say("bad", "Closed: the store cannot read its messages. See the log and, on damage, docs/operations/store.md.");
  const waiting = plural(ready, "message");
  if ((queue.consumers ?? 0) === 0) {
    if (ready === 0) return say("idle", incoming > 0 ? "Messages pass by get requests." : "Empty, and nobody consumes.");
    const grows = incoming > outgoing ? `, and ${Math.round(incoming - outgoing).toLocaleString("en")} more come each second` : "";
    return say("warn", `No consumers: ${waiting} ${ready === 1 ? "waits" : "wait"}${grows}.`);
  }
  if (consumers && consumers.length > 0 && !consumers.some((one) => one.active)) {
    return say("warn", `${waiting} wait for a consumer that is active; none is.`);
  }
  if (ready === 0) {
    if (unacknowledged > 0 && outgoing === 0) {
      return say("warn", `Consumers hold ${plural(unacknowledged, "message")} and acknowledge none.`);
    }
    return outgoing > 0 ? say("good", "Consumers keep up.") : say("idle", "Empty: consumers wait for messages.");
  }
  if (consumers && areAtPrefetch(queue, consumers)) {
    const ack = of(queue, "ack");
    return say("warn", ack > 0
      ? `Consumers are at their prefetch and acknowledge ${Math.round(ack).toLocaleString("en")} a second: ${waiting} wait for them.`
      : `Consumers are at their prefetch and acknowledge nothing: ${waiting} wait for them.`);
  }
  if (outgoing === 0) return say("warn", `${waiting} wait, and consumers take none: they read nothing, or hold all that they may.`);
  if (incoming > outgoing * 1.05) {
    return say("warn", `Consumers fall behind: ${Math.round(incoming - outgoing).toLocaleString("en")} a second more come in than go out.`);
  }
  const left = outgoing > incoming ? ` Empty in about ${timeOf(ready / (outgoing - incoming))} at this rate.` : "";
  return say("good", `${waiting} wait, and consumers take them.${left}`);
}

function timeOf(seconds) {
  if (seconds < 1) return "a second";
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  return seconds < 5400 ? `${Math.ceil(seconds / 60)} min` : `${Math.ceil(seconds / 3600)} h`;
}

/** Of a connection. */
export function connectionState(connection) {
  const incoming = connection.recv_oct_details?.rate ?? 0;
  const outgoing = connection.send_oct_details?.rate ?? 0;
  switch (connection.state) {
    case "blocked": return say("bad", "Held back by an alarm: the broker is short of memory or of disk space, and reads no more from publishers.");
    case "blocking": return say("warn", "An alarm is in effect; this connection has not published since, and is held back when it does.");
    case "flow": return say("warn", `Held back: it publishes to ${connection.harrier?.held_by_queue === undefined ? "a queue" : `queue ${connection.harrier.held_by_queue}`} that is slower than its publishers.`);
    default: break;
  }
  const rdma = connection.harrier?.rdma;
  if (rdma && (connection.send_pend ?? 0) > 0 && outgoing === 0) {
    return say("warn", rdma.rendezvous_offered > 0
      ? `It does not read: ${rdma.rendezvous_offered === 1 ? "a large body" : `${rdma.rendezvous_offered} large bodies`} in the broker's memory ${rdma.rendezvous_offered === 1 ? "waits" : "wait"} to be read by its card.`
      : `It does not read: ${plural(rdma.credits_left, "credit")} of ${rdma.credits_granted} left, and bytes wait to be sent to it.`);
  }
  if ((connection.send_pend ?? 0) > 0 && outgoing === 0) {
    return say("warn", "It does not read: bytes wait to be sent to it.");
  }
  const hold = connection.harrier?.hold;
  if (hold && incoming === 0 && outgoing === 0) return say("warn", `Nothing passes: ${hold}.`);
  if (incoming === 0 && outgoing === 0) return say("idle", "Nothing passes but heartbeats.");
  return say("good", "Messages pass.");
}

/** Of the way that a connection takes. */
export function transportWords(transport) {
  return {
    tcp: "TCP: the kernel copies and interrupts for every message.",
    tls: "TLS over TCP: encrypted, with the kernel's copies.",
    unix: "A Unix socket of this machine.",
    rdma: "RDMA: the card moves messages past the kernel.",
  }[transport] ?? transport;
}

/** Of an RDMA connection: names with their values. */
export function rdmaRows(rdma) {
  const rendezvous = (number, size) => (number === 0 ? "none" : `${number}${size === undefined ? "" : `, of ${size.toLocaleString("en")} bytes`}`);
  return [["Credits", `${rdma.credits_left} of ${rdma.credits_granted} left to send with, ${rdma.credits_owed} to be returned`], ["Unread messages", String(rdma.unread_messages)],
    ["Offered to the client", rendezvous(rdma.rendezvous_offered, rdma.rendezvous_offered_bytes)], ["To be read from it", rendezvous(rdma.rendezvous_to_read)],
    ["By rendezvous so far", `${rdma.rendezvous_sent_bytes_total.toLocaleString("en")} bytes to it, ${rdma.rendezvous_read_bytes_total.toLocaleString("en")} from it`]];
}

/** Of a shovel. */
export function shovelState(shovel) {
  const why = shovel.reason ? `: ${shovel.reason}` : "";
  switch (shovel.state) {
    case "running": return say("good", shovel.messages_unacknowledged > 0 ? `It moves messages: ${plural(shovel.messages_unacknowledged, "message")} under way.` : "It moves what comes.");
    case "starting": return say("warn", "It connects, or waits for the other broker.");
    case "paused": return say("idle", "Paused: it moves nothing until it is resumed.");
    default: return say("bad", `It does not run, and is tried again${why}`);
  }
}

/** The alarms of a node. */
export function alarms(node) {
  const found = [];
  if (node.mem_alarm) found.push("Memory: more is used than memory_limit allows. Publishers are held back until consumers have taken messages.");
  if (node.disk_free_alarm) found.push("Disk: less is free than disk_free_limit. Publishers of messages that go to the disk are held back.");
  if (node.being_drained) found.push("The broker is being stopped: it takes no new connections.");
  return found;
}

// amqplib's run of the expectations.
//
// Enters: AMQP_URL, over TLS also AMQP_CA. Leaves: a line for each expectation on standard output, as ../report.py has them.
// Owns:   its connections; queues and exchanges of its own names, deleted in the end.
// Never:  sleeps: every wait is for a message or an event, with a deadline.
import { createRequire } from 'node:module';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';

const amqp = createRequire(`${process.env.CACHE}/`)('amqplib');
const URL_ = process.env.AMQP_URL;
const DEADLINE_MS = 15000;

let serial = 0;
const unique = (word) => `node-${word}-${process.pid}-${++serial}`;

function equal(got, want, what) {
  if (!isDeepStrictEqual(got, want)) throw new Error(`${what}: got ${JSON.stringify(got)}, expected ${JSON.stringify(want)}`);
}

function inTime(promise, what) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`not in time: ${what}`)), DEADLINE_MS); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// An error of a channel or connection arrives as an event; one that nobody expects must not end the program.
function quiet(emitter) {
  emitter.on('error', () => {});
  return emitter;
}

async function connect(query = '', authority = process.env.AMQP_CA) {
  return quiet(await amqp.connect(URL_ + query, authority ? { ca: [readFileSync(authority)] } : undefined));
}

const channelOf = async (conn) => quiet(await conn.createChannel());
const temporary = async (ch) => (await ch.assertQueue('', { exclusive: true })).queue;
const ready = async (ch, queue) => (await ch.checkQueue(queue)).messageCount;

// The library gives code and text as one string: 'Operation failed: QueueDeclare; 404 (NOT-FOUND) with message "…"'.
async function refused(emitter, action, code, text) {
  const error = once(emitter, 'error', { signal: AbortSignal.timeout(DEADLINE_MS) }).catch((failure) => {
    if (failure.name === 'AbortError') throw new Error(`not in time: ${code} ${text}`);
    return [failure];
  });
  await Promise.resolve(action()).catch(() => {});
  const [said] = await error;
  equal([said.code, /with message "([\s\S]*)"$/.exec(said.message)?.[1]], [code, text], 'refusal');
}

async function filled(conn, ch, count) {
  const queue = await temporary(ch);
  const side = quiet(await conn.createConfirmChannel());
  for (let i = 0; i < count; i++) side.sendToQueue(queue, Buffer.from(String(i)));
  await inTime(side.waitForConfirms(), 'confirms');
  await side.close();
  return queue;
}

// Deliveries of one consumer as a list that can be waited for.
async function consume(ch, queue, options = {}) {
  const got = [];
  let wake = () => {};
  const { consumerTag } = await ch.consume(queue, (message) => { got.push(message); wake(); }, options);
  return {
    got,
    consumerTag,
    take: (count) => inTime((async () => {
      while (got.length < count) await new Promise((resolve) => { wake = resolve; });
      return got.slice(0, count);
    })(), `${count} deliveries, so far ${got.length}`),
  };
}

const words = (messages) => messages.map((m) => m.content.toString() + (m.fields.redelivered ? 'r' : '')).join(' ');

// Whether a mandatory message reached a queue: its return comes before its confirm.
async function routed(ch, exchange, key, headers) {
  let back = false;
  const note = () => { back = true; };
  ch.once('return', note);
  ch.publish(exchange, key, Buffer.from('x'), { mandatory: true, headers });
  await inTime(ch.waitForConfirms(), 'confirm');
  ch.removeListener('return', note);
  return !back;
}

const confirming = async (conn) => quiet(await conn.createConfirmChannel());

const expectations = {
  async connect(conn) {
    const { capabilities } = conn.connection.serverProperties;
    for (const name of ['publisher_confirms', 'exchange_exchange_bindings', 'basic.nack', 'consumer_cancel_notify', 'connection.blocked', 'consumer_priorities', 'authentication_failure_close', 'per_consumer_qos', 'direct_reply_to']) equal(capabilities[name], true, name);
    await (await connect()).close();
  },
  async exchanges(conn, ch) {
    for (const type of ['direct', 'fanout', 'topic', 'headers']) {
      const name = unique(type);
      await ch.assertExchange(name, type, { durable: true });
      await ch.assertExchange(name, type, { durable: true });
      await ch.checkExchange(name);
      await ch.deleteExchange(name);
      const side = await channelOf(conn);
      await refused(side, () => side.checkExchange(name), 404, `NOT_FOUND - no exchange '${name}' in vhost '/'`);
    }
  },
  async queues(conn, ch) {
    equal((await temporary(ch)).startsWith('amq.gen-'), true, 'server-named');
    const name = unique('queue');
    equal(await ch.assertQueue(name, { durable: true }), { queue: name, messageCount: 0, consumerCount: 0 }, 'declared');
    const side = await confirming(conn);
    for (let i = 0; i < 3; i++) side.sendToQueue(name, Buffer.from('x'));
    await side.waitForConfirms();
    equal(await ready(ch, name), 3, 'ready');
    equal((await ch.purgeQueue(name)).messageCount, 3, 'purged');
    side.sendToQueue(name, Buffer.from('x'));
    await side.waitForConfirms();
    equal((await ch.deleteQueue(name)).messageCount, 1, 'deleted');
  },
  async 'exclusive-queue'(conn, ch) {
    const queue = await temporary(ch);
    const other = await connect();
    const side = await channelOf(other);
    const text = `RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '${queue}' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.`;
    await refused(side, () => side.checkQueue(queue), 405, text.length > 255 ? `${text.slice(0, 252)}...` : text);
    await other.close();
  },
  async 'auto-delete'(conn, ch) {
    const name = unique('auto');
    await ch.assertQueue(name, { autoDelete: true, durable: false });
    const { consumerTag } = await ch.consume(name, () => {});
    await ch.cancel(consumerTag);
    await refused(ch, () => ch.checkQueue(name), 404, `NOT_FOUND - no queue '${name}' in vhost '/'`);
  },
  async refusals(conn, ch) {
    const name = unique('refused');
    await ch.assertQueue(name, { autoDelete: true, durable: false });
    let side = await channelOf(conn);
    await refused(side, () => side.assertQueue(name, { autoDelete: true, durable: true }), 406, `PRECONDITION_FAILED - inequivalent arg 'durable' for queue '${name}' in vhost '/': received 'true' but current is 'false'`);
    side = await channelOf(conn);
    await refused(side, () => side.assertExchange(`amq.${name}`, 'direct'), 403, `ACCESS_REFUSED - exchange name 'amq.${name}' contains reserved prefix 'amq.*'`);
    side = await channelOf(conn);
    await refused(side, () => side.publish(name, 'k', Buffer.from('x')), 404, `NOT_FOUND - no exchange '${name}' in vhost '/'`);
    await ch.deleteQueue(name);
  },
  async 'connection-refusal'(conn, ch) {
    await refused(conn, () => ch.assertExchange(unique('x'), 'nonsense'), 503, "COMMAND_INVALID - unknown exchange type 'nonsense'");
  },
  async 'bind-unbind'(conn) {
    const ch = await confirming(conn);
    const queue = await temporary(ch);
    await ch.bindQueue(queue, 'amq.direct', 'node-bind');
    await ch.bindQueue(queue, 'amq.direct', 'node-bind');
    equal(await routed(ch, 'amq.direct', 'node-bind'), true, 'bound');
    equal(await ready(ch, queue), 1, 'one copy');
    await ch.unbindQueue(queue, 'amq.direct', 'node-bind');
    equal(await routed(ch, 'amq.direct', 'node-bind'), false, 'unbound');
  },
  async 'bind-exchange'(conn) {
    const ch = await confirming(conn);
    const [queue, first, second] = [await temporary(ch), unique('first'), unique('second')];
    await ch.assertExchange(first, 'fanout', { durable: false });
    await ch.assertExchange(second, 'direct', { durable: false });
    await ch.bindExchange(second, first, 'k');
    await ch.bindQueue(queue, second, 'k');
    equal(await routed(ch, first, 'k'), true, 'over both');
    await ch.unbindExchange(second, first, 'k');
    equal(await routed(ch, first, 'k'), false, 'unbound');
    await ch.deleteExchange(first);
    await ch.deleteExchange(second);
  },
  async topic(conn) {
    const ch = await confirming(conn);
    const exchange = unique('topic');
    await ch.assertExchange(exchange, 'topic', { autoDelete: true, durable: false });
    await ch.bindQueue(await temporary(ch), exchange, 'a.*.c.#');
    for (const [key, want] of [['a.b.c', true], ['a.b.c.d.e', true], ['a.c', false], ['a.b.b.c', false], ['', false]]) equal(await routed(ch, exchange, key), want, key);
  },
  async headers(conn) {
    const ch = await confirming(conn);
    for (const match of ['all', 'any']) {
      const exchange = unique('headers');
      await ch.assertExchange(exchange, 'headers', { autoDelete: true, durable: false });
      await ch.bindQueue(await temporary(ch), exchange, '', { 'x-match': match, a: 1, b: 'two' });
      equal(await routed(ch, exchange, '', { a: 1, b: 'two', c: 3 }), true, `${match} both`);
      equal(await routed(ch, exchange, '', { a: 1 }), match === 'any', `${match} one`);
      equal(await routed(ch, exchange, '', { c: 1 }), false, `${match} none`);
    }
  },
  async 'alternate-exchange'(conn) {
    const ch = await confirming(conn);
    const [queue, main, alternate] = [await temporary(ch), unique('main'), unique('alternate')];
    await ch.assertExchange(alternate, 'fanout', { autoDelete: true, durable: false });
    await ch.assertExchange(main, 'direct', { durable: false, alternateExchange: alternate });
    await ch.bindQueue(queue, alternate, '');
    equal(await routed(ch, main, 'anything'), true, 'by the alternate');
    await ch.deleteExchange(main);
  },
  async 'publish-consume'(conn, ch) {
    const queue = await temporary(ch);
    const consumer = await consume(ch, queue, { noAck: true });
    const headers = { s: 'ü', i: 5, big: 2 ** 40, t: true, n: null, f: 1.5, list: [1, 'two'], table: { x: { y: 1 } }, bytes: Buffer.from([0, 255]) };
    const sent = { contentType: 'text/plain', contentEncoding: 'utf-8', deliveryMode: 2, priority: 7, correlationId: 'c', replyTo: 'r', expiration: '60000', messageId: 'm', timestamp: 1700000000, type: 't', appId: 'a' };
    for (let i = 0; i < 1000; i++) ch.sendToQueue(queue, Buffer.from(String(i)), i === 0 ? { ...sent, headers } : {});
    const got = await consumer.take(1000);
    got.forEach((message, i) => equal(message.content.toString(), String(i), 'order'));
    for (const [name, value] of Object.entries(sent)) equal(got[0].properties[name], value, name);
    equal(JSON.stringify(got[0].properties.headers), JSON.stringify(headers), 'headers');
  },
  async confirm(conn) {
    const ch = await confirming(conn);
    const queue = await temporary(ch);
    for (let i = 0; i < 500; i++) ch.sendToQueue(i % 2 ? 'node-nowhere' : queue, Buffer.from('x'));
    await inTime(ch.waitForConfirms(), '500 confirms');
    equal(await ready(ch, queue), 250, 'ready');
  },
  async return(conn, ch) {
    const back = once(ch, 'return');
    ch.publish('amq.direct', 'node-nowhere', Buffer.from('back'), { mandatory: true, type: 't' });
    const [{ fields, properties, content }] = await inTime(back, 'return');
    equal({ ...fields, type: properties.type, body: content.toString() }, { replyCode: 312, replyText: 'NO_ROUTE', exchange: 'amq.direct', routingKey: 'node-nowhere', type: 't', body: 'back' }, 'return');
  },
  async 'ack-multiple'(conn, ch) {
    const queue = await filled(conn, ch, 5);
    const got = await (await consume(ch, queue)).take(5);
    ch.ack(got[2], true);
    await ch.close();
    const side = await channelOf(conn);
    equal(words(await (await consume(side, queue)).take(2)), '3r 4r', 'what was not acknowledged');
    side.ackAll();
    equal(await ready(side, queue), 0, 'ready');
  },
  async 'nack-requeue'(conn, ch) {
    const queue = await filled(conn, ch, 5);
    const got = [];
    for (let i = 0; i < 4; i++) got.push(await ch.get(queue));
    ch.nack(got[2]);
    ch.nack(got[0]);
    ch.nackAll();
    equal(words(await (await consume(ch, queue, { noAck: true })).take(5)), '0r 1r 2r 3r 4', 'the old places');
  },
  async reject(conn, ch) {
    const queue = await filled(conn, ch, 3);
    const consumer = await consume(ch, queue);
    const got = await consumer.take(3);
    ch.reject(got[0], true);
    ch.reject(got[1], false);
    equal(words((await consumer.take(4)).slice(3)), '0r', 'requeued');
    equal(await ready(ch, queue), 0, 'ready');
  },
  async recover(conn, ch) {
    const queue = await filled(conn, ch, 3);
    const consumer = await consume(ch, queue);
    ch.ack((await consumer.take(3))[1]);
    await ch.recover();
    equal(words((await consumer.take(5)).slice(3)), '0r 2r', 'recovered');
  },
  async 'close-requeues'(conn, ch) {
    const queue = await filled(conn, ch, 3);
    const side = await channelOf(conn);
    await (await consume(side, queue)).take(3);
    await side.close();
    equal(words(await (await consume(ch, queue, { noAck: true })).take(3)), '0r 1r 2r', 'requeued');
  },
  async 'qos-consumer'(conn, ch) {
    const queue = await filled(conn, ch, 9);
    await ch.prefetch(2);
    const first = await consume(ch, queue);
    const got = await first.take(2);
    await ch.prefetch(3);
    await (await consume(ch, queue)).take(3);
    equal(await ready(ch, queue), 4, 'ready');
    ch.ack(got[0]);
    await first.take(3);
    equal(await ready(ch, queue), 3, 'ready');
  },
  async 'qos-global'(conn, ch) {
    const queue = await filled(conn, ch, 9);
    await ch.prefetch(3, true);
    const first = await consume(ch, queue);
    await first.take(3);
    const second = await consume(ch, queue);
    equal([await ready(ch, queue), first.got.length, second.got.length], [6, 3, 0], 'ready and delivered');
  },
  async get(conn, ch) {
    const queue = await filled(conn, ch, 2);
    const { fields, content } = await ch.get(queue);
    equal([content.toString(), fields.messageCount, fields.redelivered, fields.routingKey], ['0', 1, false, queue], 'get');
    await ch.get(queue, { noAck: true });
    equal(await ch.get(queue), false, 'empty');
  },
  async 'cancel-notify'(conn, ch) {
    const name = unique('cancel');
    await ch.assertQueue(name, { durable: false });
    const cancelled = new Promise((resolve) => { ch.consume(name, resolve).then(async () => (await channelOf(conn)).deleteQueue(name)); });
    equal(await inTime(cancelled, 'basic.cancel'), null, 'cancelled');
    await temporary(ch);
  },
  async 'consume-exclusive'(conn, ch) {
    const queue = await temporary(ch);
    await ch.consume(queue, () => {}, { exclusive: true });
    const side = await channelOf(conn);
    await refused(side, () => side.consume(queue, () => {}), 403, `ACCESS_REFUSED - queue '${queue}' in vhost '/' in exclusive use`);
  },
  async 'consumer-priority'(conn, ch) {
    const queue = await temporary(ch);
    await ch.prefetch(2);
    const low = await consume(ch, queue);
    const high = await consume(ch, queue, { priority: 10 });
    for (let i = 0; i < 4; i++) ch.sendToQueue(queue, Buffer.from(String(i)));
    equal(words(await high.take(2)), '0 1', 'the higher priority');
    equal(words(await low.take(2)), '2 3', 'the lower priority');
  },
  async 'direct-reply-to'(conn, ch) {
    const requests = await temporary(ch);
    const server = await channelOf(conn);
    await server.consume(requests, (m) => server.sendToQueue(m.properties.replyTo, Buffer.from(`answer to ${m.content}`)), { noAck: true });
    const replies = await consume(ch, 'amq.rabbitmq.reply-to', { noAck: true });
    ch.sendToQueue(requests, Buffer.from('ask'), { replyTo: 'amq.rabbitmq.reply-to' });
    equal(words(await replies.take(1)), 'answer to ask', 'reply');
  },
  async bodies(conn, ch) {
    const queue = await temporary(ch);
    const consumer = await consume(ch, queue, { noAck: true });
    const pattern = Buffer.alloc(5 << 20);
    for (let i = 0; i < pattern.length; i++) pattern[i] = (i * 7 + (i >> 9)) & 255;
    const sizes = [0, 1, 4095, 128 << 10, 1 << 20, 5 << 20, 0];
    for (const size of sizes) ch.sendToQueue(queue, pattern.subarray(0, size));
    const got = await consumer.take(sizes.length);
    sizes.forEach((size, i) => equal(got[i].content.equals(pattern.subarray(0, size)), true, `${size} bytes unchanged`));
  },
  async heartbeat() {
    const conn = await connect('?heartbeat=1');
    const closed = once(conn, 'close').then(() => { throw new Error('closed'); });
    // Idle for more than two intervals: only a lost connection may say something.
    let timer;
    await Promise.race([closed, new Promise((resolve) => { timer = setTimeout(resolve, 4000); })]);
    clearTimeout(timer);
    closed.catch(() => {});
    await temporary(await conn.createChannel());
    await conn.close();
  },
  async 'update-secret'(conn, ch) {
    await inTime(conn.updateSecret(Buffer.from(decodeURIComponent(new URL(URL_).password)), 'renewed'), 'update-secret-ok');
    await temporary(ch);
  },
  async channels(conn, ch) {
    const queue = await temporary(ch);
    const consumer = await consume(ch, queue, { noAck: true });
    const many = await Promise.all(Array.from({ length: 100 }, () => channelOf(conn)));
    many.forEach((channel, i) => channel.sendToQueue(queue, Buffer.from(String(i))));
    await consumer.take(100);
    await Promise.all(many.map((channel) => channel.close()));
    await (await channelOf(conn)).close();
  },
};

if (process.env.AMQP_FOREIGN_CA) {
  // The broker's certificate is verified: by another authority it is none.
  expectations['tls-foreign-authority'] = async () => {
    const said = await connect('', process.env.AMQP_FOREIGN_CA).then(() => 'it was trusted', (error) => error.code);
    equal(/^(UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT(_LOCALLY)?|SELF_SIGNED_CERT_IN_CHAIN)$/.test(said), true, said);
  };
}

const only = new Set((process.env.INTEROP_ONLY ?? '').split(',').filter(Boolean));
let failed = false;
for (const [name, run] of Object.entries(expectations)) {
  if (only.size && !only.has(name)) continue;
  let conn;
  try {
    conn = await connect();
    await inTime(run(conn, await channelOf(conn)), 'the whole expectation');
    console.log(`ok ${name}`);
  } catch (error) {
    failed = true;
    console.error(error);
    console.log(`not ok ${name} - ${String(error.message).replace(/\s+/g, ' ')}`);
  }
  await conn?.close().catch(() => {});
}
process.exit(failed ? 1 : 0);

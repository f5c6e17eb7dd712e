// amqp-connection-manager's run: a program that goes on when its connection, or its broker, has gone and come back.
//
// Enters: AMQP_URL, BROKER_SECOND (see ../second.py). Leaves: a line for each expectation on standard output, as ../report.py has them.
// Owns:   its connections and relays; queues of its own names, deleted in the end.
// Never:  sleeps: every wait is for a message or an event, with a deadline.
import { createRequire } from 'node:module';
import { once } from 'node:events';
import net from 'node:net';
import { isDeepStrictEqual } from 'node:util';

const load = createRequire(`${process.env.CACHE}/`);
const amqp = load('amqplib');
const manager = load('amqp-connection-manager');
const URL_ = process.env.AMQP_URL;
const DEADLINE_MS = 20000;
const BROKER_START_MS = 130000; // the driver gives up before (see ../second.py)
const QUICKLY = { heartbeatIntervalInSeconds: 5, reconnectTimeInSeconds: 0.05 };

class Skip extends Error {}

let serial = 0;
const unique = (word) => `manager-${word}-${process.pid}-${++serial}`;

function equal(got, want, what) {
  if (!isDeepStrictEqual(got, want)) throw new Error(`${what}: got ${JSON.stringify(got)}, expected ${JSON.stringify(want)}`);
}

function inTime(promise, what, deadlineMs = DEADLINE_MS) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`not in time: ${what}`)), deadlineMs); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// A list that can be waited for.
function list() {
  const items = [];
  let wake = () => {};
  return {
    items,
    add: (item) => { items.push(item); wake(); },
    until: (enough, what) => inTime((async () => {
      while (!enough(items)) await new Promise((resolve) => { wake = resolve; });
    })(), what),
  };
}

// Carries connections to the broker while it is open; cuts them all when told to. Its port stays.
class Relay {
  constructor(target) {
    const { hostname, port } = new URL(target);
    this.far = { host: hostname, port: Number(port) };
    this.pairs = new Set();
    this.port = 0;
    this.server = undefined;
  }

  async open() {
    this.server = net.createServer((near) => {
      const far = net.connect(this.far);
      const pair = [near, far];
      this.pairs.add(pair);
      for (const end of pair) end.on('error', () => {}).on('close', () => { this.pairs.delete(pair); near.destroy(); far.destroy(); });
      near.pipe(far).pipe(near);
    });
    this.server.listen(this.port, '127.0.0.1');
    await once(this.server, 'listening');
    this.port = this.server.address().port;
    return this;
  }

  cut() {
    for (const pair of this.pairs) pair[0].resetAndDestroy();
  }

  async close() {
    if (!this.server) return;
    const gone = once(this.server, 'close');
    this.server.close();
    this.cut();
    await gone;
    this.server = undefined;
  }

  get url() {
    const made = new URL(URL_);
    made.port = this.port;
    return made.href;
  }
}

// A word to the driver, which keeps a second broker for those who ask.
async function second(word) {
  if (!process.env.BROKER_SECOND) throw new Skip('nobody offers a second broker here');
  const line = net.connect(process.env.BROKER_SECOND);
  line.setEncoding('utf8');
  line.write(`${word}\n`);
  const [answer] = await inTime(once(line, 'data'), `the second broker: ${word}`, BROKER_START_MS);
  line.destroy();
  const [, state, text] = /^(\w+) ?(.*)/.exec(answer.trim());
  if (state === 'none') throw new Skip(text);
  equal(state, 'ok', `the second broker: ${word}: ${text}`);
  return text;
}

// Everything made for an expectation, taken down in the reverse order whatever happens.
const scene = [];
const later = (what) => { scene.push(what); };

function connected(urls, options = {}) {
  const made = manager.connect(urls, { ...QUICKLY, ...options });
  made.on('connectFailed', () => {});
  later(() => inTime(made.close(), 'the manager closes'));
  return made;
}

async function side(url = URL_) {
  const conn = await amqp.connect(url);
  conn.on('error', () => {});
  later(() => conn.close().catch(() => {}));
  const channel = await conn.createChannel();
  channel.on('error', () => {});
  return channel;
}

async function queue(word, options = {}) {
  const channel = await side();
  const name = unique(word);
  await channel.assertQueue(name, { durable: false, ...options });
  later(() => channel.deleteQueue(name));
  return [name, channel];
}

async function bodies(channel, name) {
  const found = [];
  for (let message = await channel.get(name, { noAck: true }); message; message = await channel.get(name, { noAck: true })) found.push(message.content.toString());
  return found;
}

const numbers = (from, to) => Array.from({ length: to - from }, (_, i) => String(from + i));

const expectations = {
  async 'manager-connect'() {
    const made = connected([URL_]);
    const setups = list();
    const channel = made.createChannel({ json: true, setup: async (real) => { setups.add(await real.assertQueue('', { exclusive: true })); } });
    await inTime(channel.waitForConnect(), 'connected');
    equal([made.isConnected(), setups.items.length], [true, 1], 'connected, and set up once');
    equal(await channel.sendToQueue(setups.items[0].queue, { a: 1 }), true, 'confirmed');
    const message = await channel.get(setups.items[0].queue, { noAck: true });
    equal(JSON.parse(message.content), { a: 1 }, 'as it was sent');
  },

  async 'manager-next-broker'() {
    const nobody = await new Relay(URL_).open();
    const { url } = nobody;
    await nobody.close();
    const failures = list();
    const made = connected([url, URL_]);
    made.on('connectFailed', ({ url: failed }) => failures.add(failed));
    await inTime(made.createChannel({ setup: () => {} }).waitForConnect(), 'connected to the second');
    equal(failures.items.length >= 1, true, 'after the first had failed');
  },

  async 'manager-queued'() {
    const [name, channel] = await queue('queued');
    const relay = await new Relay(URL_).open();
    const { url } = relay;
    await relay.close();
    later(() => relay.close());
    const wrapper = connected([url]).createChannel({});
    let confirmed = 0;
    const sent = numbers(0, 50).map((body) => wrapper.sendToQueue(name, body, { persistent: true }).then((said) => { confirmed++; return said; }));
    equal([wrapper.queueLength(), confirmed], [50, 0], 'waiting for a connection');
    await relay.open();
    equal(await inTime(Promise.all(sent), 'all are confirmed'), Array(50).fill(true), 'confirmed');
    equal([wrapper.queueLength(), await bodies(channel, name)], [0, numbers(0, 50)], 'once each, in order');
  },

  async 'manager-cut'() {
    const [name] = await queue('cut');
    const relay = await new Relay(URL_).open();
    later(() => relay.close());
    const got = list();
    const setups = list();
    const made = connected([relay.url]);
    const consumer = made.createChannel({ setup: () => setups.add('set up') });
    await consumer.consume(name, (message) => { got.add(message.content.toString()); consumer.ack(message); }, { prefetch: 10 });
    const producer = made.createChannel({ confirm: true });
    for (const wrapper of [consumer, producer]) wrapper.on('error', (error) => console.error('while it was set up:', error));
    await inTime(Promise.all([consumer.waitForConnect(), producer.waitForConnect()]), 'connected');
    // What waits is sent by the manager; what was on its way when the channel went is refused, and its sender sends it again.
    let again = 0;
    const insist = (body) => producer.sendToQueue(name, body).catch((error) => {
      if (error.message !== 'channel closed') throw error;
      again++;
      return insist(body);
    });
    const sent = [];
    for (let round = 0; round < 3; round++) {
      const back = once(made, 'connect');
      for (const body of numbers(round * 100, round * 100 + 100)) sent.push(insist(body));
      relay.cut(); // some are on their way, some confirmed, some in no hands but the manager's
      await inTime(back, 'connected again');
      await inTime(Promise.all([...sent, consumer.waitForConnect()]), 'all are confirmed, and the consumer is back');
    }
    await got.until((items) => new Set(items).size === 300, 'all arrive, some perhaps twice');
    equal([setups.items.length, again > 0], [4, true], 'set up each time; cut in the middle of publishing');
  },

  async 'manager-restart'() {
    const url = await second('start');
    const name = unique('restart');
    const got = list();
    const gone = list();
    const made = connected([url]);
    made.on('disconnect', ({ err }) => gone.add(String(err?.message)));
    const wrapper = made.createChannel({ setup: (channel) => channel.assertQueue(name, { durable: false, expires: 60000 }) });
    await wrapper.consume(name, (message) => { got.add(message.content.toString()); wrapper.ack(message); });
    await inTime(wrapper.waitForConnect(), 'connected');
    await inTime(Promise.all(numbers(0, 10).map((body) => wrapper.sendToQueue(name, body))), 'confirmed');
    await got.until((items) => items.length === 10, 'the first ten');
    await second('stop');
    await gone.until((items) => items.length > 0, 'the end is noticed');
    equal(/320|CONNECTION[-_]FORCED/.test(gone.items[0]), true, `the broker says that it stops: ${gone.items[0]}`);
    const sent = numbers(10, 20).map((body) => wrapper.sendToQueue(name, body));
    equal(wrapper.queueLength(), 10, 'kept');
    await second('start');
    await inTime(Promise.all(sent), 'confirmed by the new one');
    await got.until((items) => items.length === 20, 'the next ten');
    equal(got.items, numbers(0, 20), 'once each, in order');
  },

  async 'manager-refused-publish'() {
    const [name] = await queue('full', { maxLength: 1, arguments: { 'x-overflow': 'reject-publish' } });
    const wrapper = connected([URL_]).createChannel({});
    await wrapper.sendToQueue(name, 'fits');
    const said = await inTime(wrapper.sendToQueue(name, 'does not').then(() => 'confirmed', (error) => error.message), 'an answer');
    equal(said, 'message nacked', 'a nack rejects its promise');
  },
};

const only = new Set((process.env.INTEROP_ONLY ?? '').split(',').filter(Boolean));
let failed = false;
for (const [name, run] of Object.entries(expectations)) {
  if (only.size && !only.has(name)) continue;
  let trouble;
  try {
    await run(); // every wait in it has its deadline
  } catch (error) {
    trouble = error;
  }
  while (scene.length) {
    try {
      await scene.pop()();
    } catch (error) {
      trouble ??= error;
    }
  }
  if (trouble instanceof Skip) {
    console.log(`skip ${name} - ${trouble.message}`);
  } else if (trouble) {
    failed = true;
    console.error(trouble);
    console.log(`not ok ${name} - ${String(trouble.message).replace(/\s+/g, ' ')}`);
  } else {
    console.log(`ok ${name}`);
  }
}
process.exit(failed ? 1 : 0);

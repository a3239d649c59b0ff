// Checks that Perfetto reads traces correctly: node trace_perfetto_check.js ENGINE FILE...
//
// ENGINE is a folder of Perfetto's interface with engine_bundle.js and its trace processor as WebAssembly. They
// run here without a browser, and each FILE of `starstep trace export` is loaded as by the interface. Slices,
// threads, processes, steps, counters and arrows found by SQL queries must equal those of the file, to the
// nanosecond, and the processor's statistics must contain no errors. Prints differences and exits with 1 if there
// are any; exits with 77 if the engine does not run.
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");
const [engineFolder, ...files] = process.argv.slice(2);

// Messages are protocol buffers: a few fields of TraceProcessorRpc (trace_processor.proto).
const METHOD = { append: 1, finish: 2, query: 3, reset: 11 };
const varint = (n) => (n < 128 ? [n] : [n % 128 | 128, ...varint(Math.floor(n / 128))]);
const bytesField = (number, bytes) => Buffer.concat([Buffer.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes]);
const numberField = (number, value) => Buffer.from([...varint(number * 8), ...varint(value)]);
class Reader {
  constructor(bytes) { Object.assign(this, { bytes, at: 0 }); }
  varint() {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
  }
  take(n) { return this.bytes.subarray(this.at, this.at += n); }
  *varints() { while (this.at < this.bytes.length) yield this.varint(); }
  *fields() {
    while (this.at < this.bytes.length) {
      const tag = this.varint(), type = tag % 8;
      yield [Math.floor(tag / 8), type === 0 ? this.varint() : this.take(type === 1 ? 8 : type === 5 ? 4 : this.varint())];
    }
  }
}
const fieldsOf = (bytes) => new Reader(bytes).fields();

// Emulates the parts of a web worker that the engine uses.
async function startEngine() {
  const replies = [], port = { postMessage: (bytes) => replies.push(Buffer.from(bytes)) };
  const read = (name) => fs.readFileSync(path.join(engineFolder, name));
  const self = { location: { href: "" } };
  class XMLHttpRequest {
    open(method, name) { this.name = name; }
    send() { Object.assign(this, { status: 200, response: new Uint8Array(read(this.name)) }); }
  }
  vm.runInNewContext(read("engine_bundle.js").toString(), { self, XMLHttpRequest, WorkerGlobalScope: true, WebAssembly,
    TextDecoder, TextEncoder, URL, performance, crypto: require("crypto").webcrypto, // global from node 19 on
    setTimeout, Error, TypeError, Uint8Array, ArrayBuffer,
    fetch: async (name) => new Response(read(name)), console: { log() {}, warn() {}, error: console.error } });
  self.onmessage({ data: port });
  await new Promise((resolve) => setTimeout(resolve, 100)); // for the engine's own promises
  let sent = 0;
  return (method, ...args) => {
    port.onmessage({ data: new Uint8Array(bytesField(1, Buffer.concat([numberField(1, sent++), numberField(2, method), ...args]))) });
    return Buffer.concat(replies.splice(0));
  };
}

// Returns the cells of one batch of a result, which stores the kinds and, per kind, the values.
function cellsOf(batch) {
  let kinds = [], numbers = [], texts = [];
  const reals = [], out = [];
  for (const [field, value] of fieldsOf(batch)) {
    if (field === 1) kinds = [...new Reader(value).varints()];
    if (field === 2) numbers = [...new Reader(value).varints()];
    if (field === 3) for (let i = 0; i < value.length; i += 8) reals.push(value.readDoubleLE(i));
    if (field === 5) texts = value.toString().split("\0");
  }
  for (const kind of kinds) out.push(kind === 2 ? numbers.shift() : kind === 3 ? reals.shift() : kind === 4 ? texts.shift() : null);
  return out;
}
function query(engine, sql) {
  const cells = [];
  let columns = 0;
  for (const [, message] of fieldsOf(engine(METHOD.query, bytesField(103, bytesField(1, Buffer.from(sql)))))) {
    for (const [field, value] of fieldsOf(message)) {
      if (field !== 203) continue;
      for (const [part, content] of fieldsOf(value)) {
        if (part === 1) columns++;
        if (part === 2 && content.length) throw new Error(`${sql}: ${content}`);
        if (part === 3) cells.push(...cellsOf(content));
      }
    }
  }
  return Array.from({ length: columns ? cells.length / columns : 0 }, (_, i) => cells.slice(i * columns, (i + 1) * columns));
}

// The file's content and Perfetto's, in the same form of rows.
const ns = (us) => Math.round(us * 1000);
function written(events) {
  const of = (phases) => events.filter((e) => phases.includes(e.ph)), named = (name) => events.filter((e) => e.name === name);
  const place = (e) => `${e.pid} ${e.tid} ${ns(e.ts)}`, id = (e) => `${e.pid} ${e.id2.local}`;
  const slice = (e) => [e.pid, e.tid, ns(e.ts), ns(e.dur), e.name, e.cat];
  const sliceAt = new Map(of("X").map((e) => [place(e), slice(e)])), begun = new Map(of("b").map((e) => [id(e), ns(e.ts)]));
  const stops = of("stf").map((e) => [e, sliceAt.get(place(e))]), last = new Map(), arrows = [];
  for (const [e, stop] of stops) {
    if (e.ph !== "s") arrows.push([...last.get(e.id), ...stop]);
    last.set(e.id, stop);
  }
  return {
    processes: named("process_name").map((e) => [e.pid, e.args.name]),
    threads: named("thread_name").map((e) => [e.pid, e.tid, e.args.name]),
    slices: of("X").map(slice),
    steps: of("e").map((e) => [e.pid, begun.get(id(e)), ns(e.ts) - begun.get(id(e)), e.name]),
    counters: of("C").flatMap((e) => Object.entries(e.args).map(([arg, value]) => [e.pid, ns(e.ts), `${e.name} ${arg}`, value])),
    arrows, errors: [],
  };
}
function understood(engine) {
  const slices = new Map(query(engine, `select s.id, pid, tid, ts, dur, s.name, category from slice s
    join thread_track k on k.id = s.track_id join thread using (utid) join process using (upid)`).map(([id, ...row]) => [id, row]));
  return {
    processes: query(engine, "select pid, name from process where upid > 0"), // 0: Perfetto's own
    // Perfetto adds a main thread to each process; it counts only if it has tracks.
    threads: query(engine, `select pid, tid, t.name from thread t join process using (upid) where upid > 0 and
      (not is_main_thread or utid in (select utid from thread_track))`),
    slices: [...slices.values()],
    steps: query(engine, `select pid, ts, dur, s.name from slice s join process_track k on k.id = s.track_id
      join process using (upid)`),
    counters: query(engine, `select pid, ts, k.name, value from counter c join process_counter_track k on k.id = c.track_id
      join process using (upid)`),
    arrows: query(engine, "select slice_out, slice_in from flow").map((ends) => ends.flatMap((id) => slices.get(id))),
    errors: query(engine, "select name, value from stats where severity in ('error', 'data_loss') and value > 0"),
  };
}

// Perfetto reads fractions with an error in the last digit.
const asText = (row) => JSON.stringify(row, (_, v) => (typeof v === "number" && !Number.isInteger(v) ? v.toPrecision(12) : v));
function check(engine, file) {
  const text = fs.readFileSync(file);
  engine(METHOD.append, bytesField(101, text));
  engine(METHOD.finish);
  const should = written(JSON.parse(text).traceEvents), is = understood(engine), counts = [];
  let wrong = 0;
  for (const what in should) {
    const a = should[what].map(asText).sort(), b = is[what].map(asText).sort();
    const inA = new Set(a), inB = new Set(b), lost = a.filter((row) => !inB.has(row)), new_ = b.filter((row) => !inA.has(row));
    counts.push(`${b.length} ${what}`);
    if (a.join() === b.join()) continue;
    wrong++;
    console.log(`wrong: ${what}: ${a.length} written, ${b.length} understood; lost, e.g.: ${lost.slice(0, 2)}; new, e.g.: ${new_.slice(0, 2)}`);
  }
  console.log(`${file}: ${counts.join(", ")}`);
  return wrong;
}
async function main() {
  let engine, wrong = 0;
  try {
    engine = await startEngine();
    const [[one]] = query(engine, "select 1");
    if (one !== 1) throw new Error(`select 1 is ${one}`);
  } catch (e) {
    console.log(`${engineFolder}: ${String(e).slice(0, 200)}`);
    process.exit(77);
  }
  for (const file of files) {
    wrong += check(engine, file);
    engine(METHOD.reset);
  }
  process.exit(wrong ? 1 : 0);
}
main();

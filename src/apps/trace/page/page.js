// Controls, the bars per step, the table of buckets, the page's header.
const byId = (id) => document.getElementById(id);
let chosenStep = null, chosenRank = -1;

function percent(part, whole) {
  return whole > 0 ? (100 * part / whole).toFixed(1) + "\u00a0%" : "\u2013";
}

// The legend's swatches are drawn like the boxes.
function addLegend(list, entries) {
  for (const [name, colour, hatched] of entries) {
    const item = byId(list).appendChild(document.createElement("li"));
    const swatch = item.appendChild(document.createElement("canvas"));
    swatch.width = 32;
    swatch.height = 24;
    const p = swatch.getContext("2d");
    p.scale(2, 2);
    p.fillStyle = colour;
    p.fillRect(0, 0, 16, 12);
    if (hatched) {
      p.fillStyle = hatch;
      p.fillRect(0, 0, 16, 12);
    }
    item.append(name);
  }
}

// Steps of one rank, or the mean over the ranks that have the step.
// [step, window, compute, communication, both, idle...]
function stepRows() {
  const rows = new Map();
  for (const rank of trace.rank) {
    if (chosenRank >= 0 && rank.rank !== chosenRank) continue;
    for (const s of rank.steps) {
      const row = rows.get(s[0]) || { step: s[0], ranks: 0, sums: new Float64Array(9) };
      row.ranks++;
      row.sums[0] += s[2] - s[1];
      for (let k = 0; k < 8; k++) row.sums[k + 1] += s[k + 3];
      rows.set(s[0], row);
    }
  }
  return [...rows.values()].sort((a, b) => a.step - b.step).map((r) => [r.step, ...r.sums.map((x) => x / r.ranks)]);
}

const bars = { canvas: byId("steps"), left: 66, rows: [], pitch: 1 };
function drawBars() {
  const canvas = bars.canvas, ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = 190;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const p = canvas.getContext("2d");
  p.setTransform(ratio, 0, 0, ratio, 0, 0);
  p.font = PLAIN;
  p.textBaseline = "middle";
  const rows = bars.rows = stepRows(), bottom = height - 42, top = 10;
  if (!rows.length) {
    p.fillStyle = "#5b6675";
    p.fillText("No step of this trace is complete.", bars.left, height / 2);
    return;
  }
  const most = Math.max(...rows.map((r) => r[1])) || 1, scale = (bottom - top) / most;
  const power = Math.pow(10, Math.floor(Math.log10(most / 3)));
  const tick = power * [1, 2, 5, 10].find((m) => m * power >= most / 4);
  const unit = most < 5e5 ? 1e3 : 1e6;
  p.textAlign = "right";
  for (let value = 0; value <= most; value += tick) {
    p.fillStyle = "#e3e7ec";
    p.fillRect(bars.left, Math.round(bottom - value * scale), width - bars.left, 1);
    p.fillStyle = "#5b6675";
    p.fillText(value ? +(value / unit).toPrecision(4) + (unit === 1e6 ? " ms" : " \u00b5s") : "0", bars.left - 8, bottom - value * scale);
  }
  const pitch = bars.pitch = Math.min((width - bars.left) / rows.length, 90);
  const bar = Math.max(pitch - Math.min(pitch * 0.25, 14), 1);
  const every = Math.max(1, Math.ceil(44 / pitch));
  p.fillText("step", bars.left - 8, bottom + 15);
  p.fillText("overlap", bars.left - 8, bottom + 32);
  p.textAlign = "center";
  rows.forEach((r, i) => {
    const x = bars.left + i * pitch + (pitch - bar) / 2, parts = [r[2] - r[4], ...r.slice(4)];
    let y = bottom;
    parts.forEach((part, k) => {
      const size = part * scale;
      y -= size;
      for (const fill of [SHARES[k][1], SHARES[k][2] && bar > 4 ? hatch : null]) {
        if (!fill) continue;
        p.fillStyle = fill;
        p.fillRect(x, y, bar, size);
      }
    });
    if (r[0] === chosenStep) {
      p.strokeStyle = "#101010";
      p.lineWidth = 2;
      p.strokeRect(x - 1, bottom - r[1] * scale - 1, bar + 2, r[1] * scale + 2);
    }
    if (i % every) return;
    p.fillStyle = "#1c2430";
    p.fillText(r[0], x + bar / 2, bottom + 15);
    p.fillStyle = "#5b6675";
    p.fillText(r[3] > 0 ? (100 * r[4] / r[3]).toFixed(0) + " %" : "\u2013", x + bar / 2, bottom + 32);
  });
}

function summarise() {
  const rows = chosenStep === null ? bars.rows : bars.rows.filter((r) => r[0] === chosenStep);
  const sum = (k) => rows.reduce((total, r) => total + r[k], 0);
  const window = sum(1), comm = sum(3), both = sum(4), n = rows.length || 1;
  const idle = [0, 1, 2, 3, 4].map((k) => SHARES[k + 2][0].replace("Idle: ", "") + " " + percent(sum(5 + k), window));
  byId("summary").textContent = !rows.length ? "" :
    (rows.length > 1 ? "Mean of " + rows.length + " steps: " : "Step " + rows[0][0] + ": ") + showTime(window / n) +
    "; compute " + percent(sum(2), window) + "; communication " + showTime(comm / n) + ", of which " + percent(both, comm) +
    " overlap with compute and " + showTime((comm - both) / n) + " are exposed; idle: " + idle.join(", ") + ".";
  const of = chosenRank < 0 ? (trace.rank.length > 1 ? "mean of " + trace.rank.length + " ranks" : "") : "rank " + chosenRank;
  byId("of-steps").textContent = of && "\u00b7 " + of;
  byId("of-buckets").textContent = "\u00b7 " + (chosenRank < 0 ? "all ranks" : "rank " + chosenRank) + ", all steps";
}

function barAt(e) {
  const i = Math.floor((e.offsetX - bars.left) / bars.pitch);
  return e.offsetX < bars.left ? undefined : bars.rows[i];
}
bars.canvas.addEventListener("click", (e) => {
  const row = barAt(e);
  if (row) showStep(row[0]);
});
bars.canvas.addEventListener("pointermove", (e) => {
  const row = barAt(e);
  bars.canvas.style.cursor = row ? "pointer" : "default";
  bars.canvas.title = !row ? "" : "Step " + row[0] + ": " + showTime(row[1]) + "\n" + SHARES.map((share, k) =>
    share[0] + ": " + showTime(k ? row[k + 3] : row[2] - row[4])).join("\n") + "\nCommunication: " + showTime(row[3]);
});

function collectiveName(b) {
  const [, , of, kind] = trace.buckets[b];
  return kindNames[kind] === "gather" ? "gather " + of : of;
}

// Times of a bucket: [rank, bucket, delay mean, median, max, duration mean, median, max, skew mean, max,
// algorithm bandwidth, bus bandwidth, share of waiting, count]
function fillBuckets() {
  const table = byId("buckets"), head = ["Bucket", "Bytes", "Sent", "Delay", "median", "max", "Duration", "median", "max",
    "Algorithm bandwidth", "Bus bandwidth", "Waiting for the last rank", "Skew", "max"];
  const all = chosenRank < 0;
  table.replaceChildren();
  const top = table.createTHead().insertRow(), body = table.createTBody();
  for (const text of all ? head : head.slice(0, -2)) top.append(Object.assign(document.createElement("th"), { textContent: text }));
  for (const t of trace.times) {
    if (t[0] !== chosenRank || !t[13]) continue;
    const bytes = t[1] < 0 ? ["\u2013", "\u2013"] : trace.buckets[t[1]].slice(0, 2).map(showBytes), row = body.insertRow();
    const rate = (x) => t[1] < 0 || !(x > 0) ? "\u2013" : showRate(x);
    const cells = [t[1] < 0 ? "metrics" : collectiveName(t[1]), ...bytes, ...t.slice(2, 8).map(showTime), rate(t[10]), rate(t[11]), percent(t[12], 1)];
    if (all) cells.push(showTime(t[8]), showTime(t[9]));
    for (const cell of cells) row.insertCell().textContent = cell;
  }
  if (!body.rows.length) body.insertRow().insertCell().textContent = "No collectives: a run of one rank.";
}

// Controls.
function update() {
  byId("step").value = chosenStep === null ? "" : chosenStep;
  drawBars();
  summarise();
  showUse(trace.rank.filter((r) => chosenRank < 0 || r.rank === chosenRank), chosenStep);
  redraw();
}
function showStep(step) {
  chosenStep = step;
  const [begin, end] = windows.get(step), margin = (end - begin) * 0.04;
  show(begin - margin, end + margin);
  update();
}
// The first batches are loaded long before the steps: begin the view at the first computing work.
function showAll() {
  const begin = stepNumbers.length ? windows.get(stepNumbers[0])[0] : firstTime;
  chosenStep = null;
  show(begin - (lastTime - begin) * 0.015, lastTime + (lastTime - begin) * 0.01);
  update();
}
function moveStep(by) {
  const at = stepNumbers.indexOf(chosenStep);
  const next = chosenStep === null ? (by > 0 ? 0 : stepNumbers.length - 1) : at + by;
  if (stepNumbers[next] !== undefined) showStep(stepNumbers[next]);
}
byId("previous").onclick = () => moveStep(-1);
byId("next").onclick = () => moveStep(1);
byId("everything").onclick = showAll;
byId("step").onchange = (e) => e.target.value === "" ? showAll() : showStep(Number(e.target.value));
byId("rank").onchange = (e) => {
  chosenRank = Number(e.target.value);
  fillBuckets();
  update();
};
byId("path").onchange = (e) => {
  showPath = e.target.checked;
  redraw();
};
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "SELECT") return;
  if (e.key === "[") moveStep(-1);
  else if (e.key === "]") moveStep(1);
  else if (e.key === "0") showAll();
});
addEventListener("resize", () => {
  fit();
  update();
});

function describe() {
  const [first, last] = [stepNumbers[0], stepNumbers[stepNumbers.length - 1]];
  const steps = first === undefined ? "no complete step" : first === last ? "step " + first : "steps " + first + " to " + last;
  document.title = "starstep trace: " + trace.model;
  byId("title").textContent = "Trace of " + trace.model;
  byId("facts").textContent = [trace.ranks + (trace.ranks > 1 ? " ranks" : " rank"), trace.device, "collectives by " + trace.backend,
    "overlap " + (trace.overlap ? "on" : "off"), steps, sliceCount.toLocaleString("en") + " tasks and collectives"].join(" \u00b7 ");
  const bad = [];
  if (trace.rank.length < trace.ranks) bad.push("Only " + trace.rank.length + " of " + trace.ranks + " ranks have a trace here.");
  if (trace.clock_error > 0) bad.push("Clocks of ranks may differ by " + showTime(trace.clock_error) + ".");
  for (const rank of trace.rank) {
    if (rank.lost) bad.push("Rank " + rank.rank + " lost " + rank.lost + " events.");
    if (!rank.ended) bad.push("The trace of rank " + rank.rank + " ends early: the run was killed.");
  }
  byId("warnings").textContent = bad.join(" ");
  byId("warnings").hidden = !bad.length;
  const option = (list, value, text) => list.append(Object.assign(document.createElement("option"), { value, textContent: text }));
  option(byId("step"), "", "all");
  for (const step of stepNumbers) option(byId("step"), step, step);
  option(byId("rank"), -1, "all ranks");
  for (const rank of trace.rank) option(byId("rank"), rank.rank, "rank " + rank.rank);
  const used = new Set();
  for (const track of tracks) for (const kind of track.kind) used.add(kind);
  addLegend("kinds", kinds.filter((_, k) => used.has(k)));
  addLegend("shares", SHARES);
  addLegend("memories", MEMORY.slice(0, trace.device === "cuda" ? 2 : 1));
}

describe();
fit();
fillBuckets();
const asked = location.hash.match(/step=(\d+)/); // trace.html#step=12
if (asked && windows.has(Number(asked[1]))) showStep(Number(asked[1]));
else showAll();

// Workers and memory.
const MEMORY = [["Host", "#0072b2"], ["Device", "#e69f00"]];
const memoryBegin = Math.min(...trace.rank.map((r) => r.memory.length ? r.memory[0] : Infinity), firstTime);
const memoryEnd = Math.max(...trace.rank.map((r) => r.memory.length ? r.memory[r.memory.length - 3] : -Infinity), lastTime);

// Utilization of each worker of a rank in a step; step null: in all steps.
function stepsAt(rank, step) {
  return rank.steps.map((s, i) => step === null || s[0] === step ? i : -1).filter((i) => i >= 0);
}
function windowOf(rank, step) {
  return stepsAt(rank, step).reduce((sum, i) => sum + rank.steps[i][2] - rank.steps[i][1], 0);
}
function busyShares(rank, step) {
  const at = stepsAt(rank, step), window = windowOf(rank, step);
  return rank.workers.map((w) => [w.name, window > 0 ? at.reduce((sum, i) => sum + w.busy[i], 0) / window : NaN]);
}

// Same names as the timeline's rows.
const ON_GPU = { compute: "enqueues compute", comm: "enqueues comm", copy: "enqueues copy", "compute lane": "GPU compute",
  "comm lane": "GPU communication", "copy lane": "GPU copies" };
function workerName(name) {
  return trace.device === "cuda" && ON_GPU[name] || name;
}

function fillWorkers(ranks, step) {
  const table = document.getElementById("workers"), names = new Map();
  for (const rank of ranks)
    for (const [name, share] of busyShares(rank, step))
      if (share >= 0) names.set(name, [...(names.get(name) || []), [share, rank.rank, windowOf(rank, step)]]);
  table.replaceChildren();
  const top = table.createTHead().insertRow(), body = table.createTBody(), several = ranks.length > 1;
  for (const text of several ? ["Worker", "", "Busy", "least", "most"] : ["Worker", "", "Busy"])
    top.append(Object.assign(document.createElement("th"), { textContent: text }));
  for (const [name, shares] of names) {
    const whole = shares.reduce((sum, x) => sum + x[2], 0), row = body.insertRow();
    const mean = shares.reduce((sum, x) => sum + x[0] * x[2], 0) / whole; // as for compute in the summary
    const show = (x) => (100 * x[0]).toFixed(1) + "\u00a0% (rank " + x[1] + ")";
    row.insertCell().textContent = workerName(name);
    row.insertCell().append(Object.assign(document.createElement("i"), { style: "width:" + Math.min(100 * mean, 100) + "%" }));
    row.insertCell().textContent = percent(mean, 1);
    if (!several) continue;
    const sorted = [...shares].sort((a, b) => a[0] - b[0]);
    row.insertCell().textContent = show(sorted[0]);
    row.insertCell().textContent = show(sorted[sorted.length - 1]);
  }
  if (!body.rows.length) body.insertRow().insertCell().textContent = "No step of this trace is complete.";
}

// The largest sample of some ranks: [bytes, rank]; which: 1 host, 2 device.
function mostMemory(ranks, which) {
  let most = [0, -1];
  for (const rank of ranks)
    for (let i = which; i < rank.memory.length; i += 3) if (rank.memory[i] > most[0]) most = [rank.memory[i], rank.rank];
  return most;
}

const chart = { canvas: document.getElementById("memory"), left: 66, bottom: 168, top: 10, ranks: [], scale: 1 };
function drawMemory(ranks, step) {
  const { canvas, left, top, bottom } = chart, ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = 200;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const p = canvas.getContext("2d");
  p.setTransform(ratio, 0, 0, ratio, 0, 0);
  p.font = PLAIN;
  p.textBaseline = "middle";
  chart.ranks = ranks;
  chart.scale = (width - left - 8) / (memoryEnd - memoryBegin || 1);
  const most = Math.max(mostMemory(ranks, 1)[0], mostMemory(ranks, 2)[0]), x = (t) => left + (t - memoryBegin) * chart.scale;
  if (!most) {
    p.fillStyle = "#5b6675";
    p.fillText("No memory sample in these steps.", left, height / 2);
    return;
  }
  const w = windows.get(step);
  if (w) {
    p.fillStyle = "#e9edf2";
    p.fillRect(x(w[0]), top, Math.max((w[1] - w[0]) * chart.scale, 2), bottom - top);
  }
  const y = memoryAxes(p, most, width);
  ranks.forEach((rank) => MEMORY.forEach(([, colour], which) => {
    const n = rank.memory.length / 3;
    if (!n || (which && trace.device !== "cuda")) return;
    p.strokeStyle = p.fillStyle = colour;
    p.lineWidth = 1.5;
    p.globalAlpha = ranks.length > 4 ? 0.55 : 1;
    p.beginPath();
    for (let i = 0; i < n; i++) p.lineTo(x(rank.memory[3 * i]), y(rank.memory[3 * i + 1 + which]));
    p.stroke();
    for (let i = 0; n < 80 && i < n; i++) p.fillRect(x(rank.memory[3 * i]) - 2, y(rank.memory[3 * i + 1 + which]) - 2, 4, 4);
    p.globalAlpha = 1;
  }));
}

function memoryAxes(p, most, width) {
  const { left, top, bottom } = chart, nice = (rough) => {
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    return power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
  };
  const tick = nice(most / 4), scale = (bottom - top) / (Math.ceil(most / tick) * tick), y = (bytes) => bottom - bytes * scale;
  p.textAlign = "right";
  for (let value = 0; y(value) > top - 1; value += tick) {
    p.fillStyle = "#e3e7ec";
    p.fillRect(left, Math.round(y(value)), width - left, 1);
    p.fillStyle = "#5b6675";
    p.fillText(value ? showBytes(value).replace(/\.?0+ /, " ") : "0", left - 8, y(value));
  }
  p.textAlign = "center";
  const step = nice((memoryEnd - memoryBegin) * 90 / (width - left));
  for (let time = Math.ceil(memoryBegin / step) * step; time <= memoryEnd; time += step) {
    const x = left + (time - memoryBegin) * chart.scale;
    p.fillRect(Math.round(x), bottom, 1, 5);
    if (x < width - 30) p.fillText(+(time / 1e6).toPrecision(6), x, bottom + 14);
  }
  p.textAlign = "right";
  p.fillText("ms", left - 8, bottom + 14);
  return y;
}

chart.canvas.addEventListener("pointermove", (e) => {
  const time = memoryBegin + (e.offsetX - chart.left) / chart.scale, lines = [];
  for (const rank of chart.ranks) {
    let best = -1;
    for (let i = 0; i < rank.memory.length; i += 3)
      if (best < 0 || Math.abs(rank.memory[i] - time) < Math.abs(rank.memory[best] - time)) best = i;
    if (best >= 0) lines.push("rank " + rank.rank + ", " + showTime(rank.memory[best]) + ": host " + showBytes(rank.memory[best + 1]) +
      (trace.device === "cuda" ? ", device " + showBytes(rank.memory[best + 2]) : ""));
  }
  chart.canvas.title = lines.slice(0, 16).join("\n");
});

function showUse(ranks, step) {
  fillWorkers(ranks, step);
  drawMemory(ranks, step);
  const parts = MEMORY.slice(0, trace.device === "cuda" ? 2 : 1).map(([name], k) => {
    const most = mostMemory(ranks, k + 1);
    return most[1] < 0 ? "" : name.toLowerCase() + " " + showBytes(most[0]) + (ranks.length > 1 ? " (rank " + most[1] + ")" : "");
  }).filter((text) => text);
  document.getElementById("most").textContent = (parts.length ? "Most: " + parts.join(", ") + ". " : "") +
    "Host: resident memory of the process" + (trace.device === "cuda" ? "; device: memory allocated by the run." : ".");
  document.getElementById("of-workers").textContent = "\u00b7 " + (step === null ? "all steps" : "step " + step) +
    (ranks.length > 1 ? ", mean of " + ranks.length + " ranks" : trace.rank.length > 1 ? ", rank " + ranks[0].rank : "");
  document.getElementById("of-memory").textContent = trace.rank.length < 2 ? "" : ranks.length > 1 ? "\u00b7 a line for each rank" : "\u00b7 rank " + ranks[0].rank;
}

// The timeline: one row per track, on a canvas that covers only the visible area.
const LABELS = 150, AXIS = 26, ROW = 21, HEAD = 20, GAP = 8;
const LEVELS = 4; // shades for pixel columns that are busy for part of their time
const canvas = document.getElementById("timeline");
const scroller = document.getElementById("scroller");
const pen = canvas.getContext("2d", { alpha: false });
const view = { begin: firstTime, end: lastTime, width: 0, height: 0, scale: 1 };
const shades = kinds.map((kind) => Array.from({ length: LEVELS }, (_, i) => mix(kind[1], (i + 1.6) / (LEVELS + 0.6))));
const boxes = kinds.map(() => Array.from({ length: LEVELS }, () => []));
let showPath = false, hovered = null, pending = false;
let seen = 0; // slices visited by the last drawing

let contentHeight = AXIS;
for (const rank of trace.rank) {
  rank.y = contentHeight;
  contentHeight += HEAD;
  for (const track of rank.tracks) {
    track.y = contentHeight;
    contentHeight += ROW;
  }
  contentHeight += GAP;
}

function makeHatch() {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const p = tile.getContext("2d");
  p.strokeStyle = "rgba(255,255,255,0.42)";
  p.lineWidth = 1.4;
  for (const x of [-6, 0, 6]) {
    p.beginPath();
    p.moveTo(x - 1, 7);
    p.lineTo(x + 7, -1);
    p.stroke();
  }
  return pen.createPattern(tile, "repeat");
}
const hatch = makeHatch();

const meanWindow = trace.rank.reduce((sum, r) => sum + r.steps.reduce((all, s) => all + s[2] - s[1], 0), 0) /
  Math.max(trace.rank.reduce((sum, r) => sum + r.steps.length, 0), 1) || 1;

const toX = (time) => LABELS + (time - view.begin) * view.scale;
const toTime = (x) => view.begin + (x - LABELS) / view.scale;

function clampView() {
  const all = lastTime - firstTime || 1, margin = all * 0.02;
  const span = Math.min(Math.max(view.end - view.begin, 200), all + 2 * margin);
  view.begin = Math.min(Math.max(view.begin, firstTime - margin), lastTime + margin - span);
  view.end = view.begin + span;
  view.scale = (view.width - LABELS) / span;
}

function show(begin, end) {
  view.begin = begin;
  view.end = end;
  clampView();
  redraw();
}

function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    draw();
  });
}

function fit() {
  const ratio = devicePixelRatio || 1;
  view.width = scroller.clientWidth;
  view.height = Math.min(contentHeight, Math.max(Math.round(innerHeight * 0.68), 160));
  canvas.width = Math.round(view.width * ratio);
  canvas.height = Math.round(view.height * ratio);
  canvas.style.width = view.width + "px";
  canvas.style.height = view.height + "px";
  document.getElementById("extent").style.height = contentHeight + "px";
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  clampView();
}

// Draw the boxes of a track. Slices narrower than a pixel share a column: it has the color of the
// longest of them, and is lighter the less of its time is busy.
function collect(track, y) {
  const { begin, end, kind } = track, scale = view.scale, offset = LABELS - view.begin * scale;
  let column = -1, longest = 0, busy = 0, best = 0, last = null, lastKey = -1;
  const flush = () => {
    if (column < 0) return;
    const level = Math.min(LEVELS - 1, Math.floor(busy * scale * LEVELS)), key = best * LEVELS + level;
    if (lastKey === key && last[last.length - 4] + last[last.length - 2] === column) last[last.length - 2]++;
    else (last = boxes[best][level]).push(column, y, 1, ROW - 4);
    lastKey = key;
    column = -1;
  };
  let i = firstAbove(end, view.begin);
  // An empty slice ends where it begins: one exactly at the edge is visible too.
  while (i > 0 && end[i - 1] >= view.begin) i--;
  for (; i < track.n && begin[i] <= view.end; i++) {
    const from = begin[i] * scale + offset, length = end[i] - begin[i], width = length * scale;
    seen++;
    if (width >= 1.5) {
      flush();
      lastKey = -1;
      const left = Math.max(from, LABELS - 2), right = Math.min(from + width, view.width + 2);
      boxes[kind[i]][LEVELS - 1].push(left, y, Math.max(right - left - (width > 4 ? 0.6 : 0), 0.8), ROW - 4);
      continue;
    }
    const at = Math.floor(from);
    if (at !== column) {
      flush();
      column = at;
      longest = -1;
      busy = 0;
    }
    busy += length;
    if (length > longest) {
      longest = length;
      best = kind[i];
    }
  }
  flush();
}

function drawBoxes() {
  for (let k = 0; k < kinds.length; k++)
    for (let level = 0; level < LEVELS; level++) {
      const list = boxes[k][level];
      if (!list.length) continue;
      pen.fillStyle = shades[k][level];
      for (let i = 0; i < list.length; i += 4) pen.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
      if (kinds[k][2]) {
        pen.fillStyle = hatch;
        for (let i = 0; i < list.length; i += 4)
          if (list[i + 2] > 4) pen.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
      }
      list.length = 0;
    }
}

// Names in sufficiently wide boxes, and outlines of the critical path.
function drawDetails(track, y) {
  const { begin, end } = track, least = (showPath ? 0.7 : 14) / view.scale;
  for (let i = firstAbove(end, view.begin); i < track.n && begin[i] < view.end; i++) {
    if (end[i] - begin[i] < least) continue;
    const left = Math.max(toX(begin[i]), LABELS), right = Math.min(toX(end[i]), view.width), room = right - left;
    if (showPath && track.path[i]) {
      pen.fillStyle = "#101010";
      pen.fillRect(left, y + ROW - 7, Math.max(room, 1), 3);
    }
    const letters = Math.floor((room - 7) / 6.7), name = label(track, i, letters);
    if (!name) continue;
    pen.fillStyle = DARK.has(kindNames[track.kind[i]]) ? "#ffffff" : "#14181d";
    pen.fillText(name, left + 4, y + ROW / 2 - 1.5);
  }
}
// The color distinguishes forward and backward. In narrow boxes, a bucket is shown by its number.
function label(track, i, letters) {
  const task = track.task[i], bucket = track.rank.bucket[task], name = track.rank.name[task].replace(/^(fwd|bwd) /, "");
  if (name.length <= letters) return name;
  if (kinds[track.kind[i]][2]) {
    const of = bucket >= 0 ? String(trace.buckets[bucket][2]) : "";
    return letters >= of.length ? of : "";
  }
  return letters < 6 ? "" : name.slice(0, letters - 1) + "\u2026";
}
const DARK = new Set(["forward", "update", "report", "reduce-metrics", "fetch"]);

function drawAxis() {
  const span = view.end - view.begin, rough = span / Math.max((view.width - LABELS) / 110, 1);
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const tick = power * [1, 2, 5, 10].find((m) => m * power >= rough);
  const digits = Math.max(0, 6 - Math.floor(Math.log10(tick) + 1e-9));
  pen.fillStyle = "#ffffff";
  pen.fillRect(0, 0, view.width, AXIS);
  pen.fillStyle = "#5b6675";
  pen.textAlign = "center";
  for (let time = Math.ceil(view.begin / tick) * tick; time <= view.end; time += tick) {
    const x = toX(time);
    if (x < LABELS + 20 || x > view.width - 24) continue;
    pen.fillRect(Math.round(x), AXIS - 6, 1, 6);
    pen.fillText((time / 1e6).toFixed(Math.min(digits, 6)), x, AXIS / 2 - 1);
  }
  pen.textAlign = "left";
  pen.fillText("time in ms", 10, AXIS / 2 - 1);
  pen.fillStyle = "#d9dee5";
  pen.fillRect(0, AXIS - 1, view.width, 1);
}

// Background of a rank's rows: the windows of its steps, alternately shaded, with numbers above.
function drawSteps(rank, y, height) {
  pen.fillStyle = "#e9edf2";
  pen.fillRect(0, y, view.width, HEAD - 2);
  const usual = meanWindow * view.scale, every = Math.ceil(34 / usual);
  for (const s of rank.steps) {
    if (s[2] < view.begin || s[1] > view.end) continue;
    const left = Math.max(toX(s[1]), LABELS), right = Math.min(toX(s[2]), view.width);
    if (usual > 12 && s[0] % 2 && right > left) {
      pen.fillStyle = "#f3f5f8";
      pen.fillRect(left, y + HEAD - 2, right - left, height - HEAD);
    }
    pen.fillStyle = "#aeb8c4";
    const marked = s[0] % every === 0;
    if (s[1] >= view.begin && (usual > 5 || marked)) pen.fillRect(Math.round(left), y, 1, usual > 30 ? height - 2 : HEAD - 2);
    pen.fillStyle = "#5b6675";
    if (right - left > 60) pen.fillText("step " + s[0], left + 5, y + HEAD / 2 - 1);
    else if (marked && right > left + 1) pen.fillText(String(s[0]), left + 4, y + HEAD / 2 - 1);
  }
}

function drawLabels(rank, y) {
  pen.fillStyle = "#ffffff";
  pen.fillRect(0, y + HEAD - 2, LABELS - 4, rank.tracks.length * ROW + 4);
  pen.fillStyle = "#e9edf2";
  pen.fillRect(0, y, LABELS - 4, HEAD - 2);
  pen.fillStyle = "#1c2430";
  pen.font = BOLD;
  pen.fillText("rank " + rank.rank, 10, y + HEAD / 2 - 1);
  pen.font = PLAIN;
  pen.fillStyle = "#3d4855";
  for (const track of rank.tracks) pen.fillText(track.name, 10, track.y - rank.y + y + ROW / 2 - 1, LABELS - 18);
}
const PLAIN = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif', BOLD = "600 " + PLAIN;

// The slice under the pointer, and the same task of the same step on all ranks.
function drawHovered(shift) {
  if (!hovered) return;
  const task = hovered.track.task[hovered.at], step = hovered.track.step[hovered.at];
  pen.lineWidth = 2;
  for (const track of tracks) {
    const y = track.y - shift + 2;
    if (y < AXIS || y > view.height) continue;
    for (let i = firstAbove(track.end, view.begin); i < track.n && track.begin[i] < view.end; i++) {
      if (track.task[i] !== task || track.step[i] !== step) continue;
      const left = Math.max(toX(track.begin[i]), LABELS);
      pen.strokeStyle = track === hovered.track && i === hovered.at ? "#000000" : "#555555";
      pen.strokeRect(left, y - 1, Math.max(Math.min(toX(track.end[i]), view.width) - left, 2), ROW - 2);
    }
  }
}

function draw() {
  const shift = scroller.scrollTop, inView = [];
  seen = 0;
  pen.font = PLAIN;
  pen.textBaseline = "middle";
  pen.fillStyle = "#ffffff";
  pen.fillRect(0, 0, view.width, view.height);
  for (const rank of trace.rank) {
    const height = HEAD + rank.tracks.length * ROW + GAP, y = rank.y - shift;
    if (y + height < AXIS || y > view.height) continue;
    inView.push(rank);
    drawSteps(rank, y, height);
    for (const track of rank.tracks) collect(track, track.y - shift + 2);
  }
  drawBoxes();
  for (const rank of inView) {
    for (const track of rank.tracks) drawDetails(track, track.y - shift + 2);
  }
  drawHovered(shift);
  for (const rank of inView) drawLabels(rank, rank.y - shift);
  drawAxis();
}

// Navigation.
function zoom(factor, x) {
  const at = toTime(Math.max(x, LABELS));
  show(at - (at - view.begin) * factor, at + (view.end - at) * factor);
}
canvas.addEventListener("wheel", (e) => {
  if (e.offsetX < LABELS) return; // the ranks scroll
  e.preventDefault();
  if (e.shiftKey) {
    scroller.scrollTop += e.deltaY || e.deltaX; // with Shift, browsers report horizontal scrolling
    return;
  }
  if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) show(view.begin + e.deltaX / view.scale, view.end + e.deltaX / view.scale);
  else zoom(Math.exp(Math.max(-240, Math.min(240, e.deltaY * (e.deltaMode ? 30 : 1))) * 0.0022), e.offsetX);
}, { passive: false });

let grabbed = null;
canvas.addEventListener("pointerdown", (e) => {
  grabbed = { x: e.offsetX, y: e.clientY, begin: view.begin, end: view.end, top: scroller.scrollTop };
  canvas.setPointerCapture(e.pointerId);
  canvas.classList.add("moving");
});
canvas.addEventListener("pointerup", () => {
  grabbed = null;
  canvas.classList.remove("moving");
});
canvas.addEventListener("pointermove", (e) => {
  if (!grabbed) return hover(e);
  hideTip();
  const moved = (grabbed.x - e.offsetX) / view.scale;
  scroller.scrollTop = grabbed.top + grabbed.y - e.clientY;
  show(grabbed.begin + moved, grabbed.end + moved);
});
canvas.addEventListener("pointerleave", hideTip);
canvas.addEventListener("dblclick", (e) => {
  const time = toTime(e.offsetX);
  const step = stepNumbers.find((n) => windows.get(n)[0] <= time && time < windows.get(n)[1]);
  if (step !== undefined) showStep(step);
});
canvas.addEventListener("keydown", (e) => {
  const move = (view.end - view.begin) * 0.15, middle = (view.width + LABELS) / 2;
  if (e.key === "ArrowLeft") show(view.begin - move, view.end - move);
  else if (e.key === "ArrowRight") show(view.begin + move, view.end + move);
  else if (e.key === "+" || e.key === "=") zoom(0.7, middle);
  else if (e.key === "-") zoom(1 / 0.7, middle);
  else return;
  e.preventDefault();
});
scroller.addEventListener("scroll", redraw);

// Tooltip for the slice under the pointer.
const tip = document.getElementById("tip");
function find(x, y) {
  if (x < LABELS || y < AXIS) return null;
  const row = y + scroller.scrollTop;
  const track = tracks.find((t) => row >= t.y && row < t.y + ROW);
  if (!track) return null;
  const time = toTime(x), near = 2.5 / view.scale, i = firstAbove(track.end, time - near);
  let best = null, distance = Infinity;
  for (let k = i; k < track.n && track.begin[k] <= time + near && k < i + 200; k++) {
    const away = Math.max(track.begin[k] - time, time - track.end[k], 0);
    if (away < distance) [best, distance] = [{ track, at: k }, away];
  }
  return best;
}

function hideTip() {
  if (hovered) redraw();
  hovered = null;
  tip.hidden = true;
}

function facts(track, i) {
  const rank = track.rank, task = track.task[i], length = track.end[i] - track.begin[i], bucket = rank.bucket[task];
  const own = rank.steps.find((s) => s[0] === track.step[i]);
  const list = [["Kind", kinds[track.kind[i]][0]], ["Where", "rank " + rank.rank + ", " + track.name],
    ["Step", track.step[i]], ["Duration", showTime(length)], ["Begin", showTime(track.begin[i])], ["End", showTime(track.end[i])]];
  if (own) list.push(["In its step", "from " + showTime(track.begin[i] - own[1])]);
  list.push(["Ready, but waiting", showTime(track.wait[i])]);
  if (bucket >= 0) {
    list.push(["Bucket", trace.buckets[bucket][2]]);
    list.push(["Bytes", showBytes(trace.buckets[bucket][0]) + (trace.buckets[bucket][1] !== trace.buckets[bucket][0]
      ? ", " + showBytes(trace.buckets[bucket][1]) + " sent" : "")]);
    if (kinds[track.kind[i]][2] && length > 0) list.push(["Bandwidth", showRate(trace.buckets[bucket][1] / length)]);
  }
  return list;
}

function hover(e) {
  const found = find(e.offsetX, e.offsetY);
  if (!found) return hideTip();
  if (!hovered || hovered.track !== found.track || hovered.at !== found.at) {
    hovered = found;
    tip.replaceChildren();
    tip.append(Object.assign(document.createElement("b"), { textContent: found.track.rank.name[found.track.task[found.at]] }));
    const table = tip.appendChild(document.createElement("dl"));
    for (const [name, value] of facts(found.track, found.at))
      table.append(Object.assign(document.createElement("dt"), { textContent: name }),
        Object.assign(document.createElement("dd"), { textContent: value }));
    redraw();
  }
  tip.hidden = false;
  const left = e.clientX + 16, top = e.clientY + 16;
  tip.style.left = (left + tip.offsetWidth > innerWidth - 8 ? e.clientX - tip.offsetWidth - 12 : left) + "px";
  tip.style.top = (top + tip.offsetHeight > innerHeight - 8 ? Math.max(e.clientY - tip.offsetHeight - 12, 4) : top) + "px";
}

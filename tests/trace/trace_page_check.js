// Runs at the end of a copy of the exported page and writes its findings into the document: the number of
// slices drawn in the full view, the colors on the canvas, the effects of wheel, keys, pointer and controls,
// and frame times.
"use strict";
const found = {};
function wholeView() {
  showAll();
  show(firstTime, lastTime);
  view.height = contentHeight;
  draw();
  found.drawn = seen;
  fit();
  draw();
}
function paintedKinds() {
  const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data, colours = new Set();
  for (let i = 0; i < pixels.length; i += 4) colours.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
  return kindNames.filter((_, k) => {
    const [r, g, b] = shades[k][LEVELS - 1].match(/\d+/g).map(Number);
    return colours.has(r << 16 | g << 8 | b);
  });
}
const span = () => view.end - view.begin;
function act(event) {
  const before = [span(), view.begin];
  canvas.dispatchEvent(event);
  return [span() / before[0], (view.begin - before[1]) / before[0]];
}
function interact() {
  const box = canvas.getBoundingClientRect(), at = (x, y) => ({ clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true });
  if (stepNumbers.length) showStep(stepNumbers[Math.min(1, stepNumbers.length - 1)]);
  draw();
  found.painted = paintedKinds();
  found.step = document.getElementById("step").value;
  found.summary = document.getElementById("summary").textContent;
  const middle = LABELS + (view.width - LABELS) / 2;
  found.wheel = act(new WheelEvent("wheel", { ...at(middle, 60), deltaY: -120 }))[0];
  found.wheelBack = act(new WheelEvent("wheel", { ...at(middle, 60), deltaY: 120 }))[0];
  found.key = act(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }))[1];
  canvas.setPointerCapture = () => {}; // no real pointer is down
  canvas.dispatchEvent(new PointerEvent("pointerdown", at(middle, 60)));
  found.drag = act(new PointerEvent("pointermove", at(middle - (view.width - LABELS) / 4, 60)))[1];
  canvas.dispatchEvent(new PointerEvent("pointerup", at(middle, 60)));
  const track = tracks.find((t) => t.kind.some((k) => kindNames[k] === "all-reduce")) || tracks[0];
  const i = Math.max(track.kind.findIndex((k) => kindNames[k] === "all-reduce"), 0);
  show(track.begin[i] - 1000, track.end[i] + 1000);
  scroller.scrollTop = 0;
  canvas.dispatchEvent(new PointerEvent("pointermove", at(toX((track.begin[i] + track.end[i]) / 2), track.y + 8)));
  found.tip = tip.hidden ? "" : tip.textContent;
  found.buckets = document.querySelectorAll("#buckets tbody tr").length;
  const rank = document.getElementById("rank");
  rank.value = String(trace.rank[trace.rank.length - 1].rank);
  rank.dispatchEvent(new Event("change"));
  found.heading = document.getElementById("of-steps").textContent;
  showPath = true;
  draw();
}
// Returns the page's texts and tables for all ranks and each rank, all steps and each step.
function tell() {
  const cells = (id) => [...document.querySelectorAll("#" + id + " tbody tr")].map((row) => [...row.cells].map((c) => c.textContent));
  const told = [], rank = document.getElementById("rank"), step = document.getElementById("step");
  for (const r of rank.options)
    for (const s of step.options) {
      for (const [list, option] of [[rank, r], [step, s]]) {
        list.value = option.value;
        list.dispatchEvent(new Event("change"));
      }
      told.push({ rank: Number(r.value), step: s.value === "" ? null : Number(s.value), summary: document.getElementById("summary").textContent,
        workers: cells("workers"), most: document.getElementById("most").textContent, buckets: s.value === "" ? cells("buckets") : null });
    }
  return { told, first: firstTime, last: lastTime };
}
// Escapes characters that HTML serialization would change.
const plain = (text) => text.replace(/[^\x20-\x7e]|[&<>]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
function memoryPixels() {
  const list = chart.canvas.getContext("2d").getImageData(0, 0, chart.canvas.width, chart.canvas.height).data;
  let n = 0; // host memory is blue, blurred where a line lies between two pixel rows
  for (let i = 0; i < list.length; i += 4) n += list[i + 2] > list[i] + 70;
  return n;
}
// Includes rasterization: reading back a pixel waits for it.
function measureFrames() {
  const times = [], all = lastTime - firstTime, frames = 120;
  for (let i = 0; i < frames; i++) {
    const width = all * Math.pow(0.002, Math.abs(1 - 2 * i / frames)), middle = firstTime + all * (0.2 + 0.6 * i / frames);
    [view.begin, view.end] = [middle - width / 2, middle + width / 2];
    clampView();
    const start = performance.now();
    draw();
    pen.getImageData(LABELS + 1, AXIS + 1, 1, 1);
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  return [times[frames >> 1], times[Math.floor(frames * 0.95)], times[frames - 1]].map((t) => Math.round(t * 10) / 10);
}
Object.assign(found, { slices: sliceCount, ranks: trace.rank.length, tracks: tracks.length, steps: stepNumbers.length });
wholeView();
interact();
if (sliceCount < 20000) found.numbers = plain(JSON.stringify(tell()));
found.memory = memoryPixels();
found.frames_ms = measureFrames(); // median, 95th percentile, maximum
document.body.append(Object.assign(document.createElement("pre"), {
  id: "found", textContent: Object.entries({ ...found, errors: seenErrors.length, first: seenErrors[0] || "" })
    .map(([name, value]) => name + "=" + (typeof value === "number" ? +value.toFixed(3) : value)).join("\n"),
}));

// Unpacks the page's data, as written by the export (export_html.c).
"use strict";
addEventListener("error", (e) => {
  const place = document.getElementById("warnings");
  place.textContent = "This page does not work in this browser: " + e.message;
  place.hidden = false;
});

const trace = JSON.parse(document.getElementById("trace").textContent);

// Colors distinguishable for colorblind readers (Okabe and Ito); collectives are also hatched.
const KINDS = {
  "load": ["Load", "#56b4e9"],
  "upload": ["Upload", "#8fa3b8"],
  "convert": ["Convert", "#b5bfcb"],
  "forward": ["Forward", "#0072b2"],
  "backward": ["Backward", "#e69f00"],
  "sum": ["Sum", "#d55e00"],
  "add": ["Add", "#d55e00"],
  "all-reduce": ["All-reduce", "#cc79a7", "hatched"],
  "check": ["Check", "#f0e442"],
  "reduce-scatter": ["Reduce-scatter", "#cc79a7", "hatched"],
  "gather": ["Gather", "#b0608f", "hatched"],
  "reduce-found": ["Infinities", "#8c5a7d", "hatched"],
  "squares": ["Squares", "#f0e442"],
  "reduce-squares": ["Norm", "#8c5a7d", "hatched"],
  "update": ["Update", "#009e73"],
  "scale": ["Loss scale", "#c9b400"],
  "fetch": ["Fetch", "#7a8796"],
  "reduce-metrics": ["Metrics", "#8c5a7d", "hatched"],
  "report": ["Report", "#3d4855"],
};
const SHARES = [
  ["Compute", "#7fb3d5"],
  ["Compute while communicating", "#0072b2", "hatched"],
  ["Idle: input", "#56b4e9"],
  ["Idle: communication", "#cc79a7"],
  ["Idle: dependency", "#f0e442"],
  ["Idle: runtime", "#5b6675"],
  ["Idle: nothing to do", "#d3d8de"],
];

// One row of the timeline: slices sorted by time, without overlaps.
function unpackTrack(packed, rank) {
  const n = packed.n, numbers = packed.data;
  const track = {
    name: packed.name, rank, n,
    begin: new Float64Array(n), end: new Float64Array(n), wait: new Float64Array(n),
    task: new Int32Array(n), step: new Float64Array(n), kind: new Uint8Array(n), path: new Uint8Array(n),
  };
  let time = 0, step = 0;
  for (let i = 0, k = 0; i < n; i++, k += 5) {
    track.begin[i] = time += numbers[k];
    track.end[i] = time += numbers[k + 1];
    track.wait[i] = numbers[k + 2];
    track.task[i] = numbers[k + 3];
    track.step[i] = step += numbers[k + 4];
    track.kind[i] = rank.kind[numbers[k + 3]];
  }
  return track;
}

// Flag the slices on critical paths; if a task has two slices, the last one is the GPU's.
function markPath(rank) {
  const wanted = new Set();
  for (let i = 0, step = 0; i < rank.path.length; i += 2) {
    step += rank.path[i];
    wanted.add(step * rank.name.length + rank.path[i + 1]);
  }
  for (const track of rank.tracks)
    for (let i = 0; i < track.n; i++)
      track.path[i] = wanted.has(track.step[i] * rank.name.length + track.task[i]) ? 1 : 0;
}

const kindNames = trace.kinds;
const kinds = kindNames.map((name) => KINDS[name] || [name, "#888888"]);
const tracks = [];
let firstTime = Infinity, lastTime = -Infinity, sliceCount = 0;
for (const rank of trace.rank) {
  rank.tracks = rank.tracks.map((packed) => unpackTrack(packed, rank));
  markPath(rank);
  for (const track of rank.tracks) {
    tracks.push(track);
    sliceCount += track.n;
    if (track.n) {
      firstTime = Math.min(firstTime, track.begin[0]);
      lastTime = Math.max(lastTime, track.end[track.n - 1]);
    }
  }
}

// Windows of steps over all ranks: step, begin, end.
const windows = new Map();
for (const rank of trace.rank)
  for (const s of rank.steps) {
    const w = windows.get(s[0]);
    windows.set(s[0], w ? [Math.min(w[0], s[1]), Math.max(w[1], s[2])] : [s[1], s[2]]);
  }
const stepNumbers = [...windows.keys()].sort((a, b) => a - b);

// Units.
function showTime(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return (ns / 1e9).toFixed(3) + " s";
  if (size >= 1e6) return (ns / 1e6).toFixed(3) + " ms";
  return (ns / 1e3).toFixed(size >= 1e5 ? 1 : 2) + " \u00b5s";
}
function showBytes(bytes) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (bytes >= size) return (bytes / size).toFixed(2) + " " + unit;
  return bytes + " B";
}
function showRate(gigabytes) {
  return gigabytes >= 1 ? gigabytes.toFixed(2) + " GB/s" : (gigabytes * 1e3).toFixed(1) + " MB/s";
}

// First i with list[i] > value; list is sorted.
function firstAbove(list, value) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

function mix(colour, share) {
  const part = (at) => Math.round(255 + (parseInt(colour.slice(at, at + 2), 16) - 255) * share);
  return "rgb(" + part(1) + "," + part(3) + "," + part(5) + ")";
}

// The time line: a track for Python and one for each queue of a device, on a canvas that zooms and moves.
"use strict";

const timeline = {from: 0, to: 1, follows: true, hovered: -1, chosen: -1};
const SHADES = ["#8fa3b8", "#c9a04e", "#b77cc9", "#c96a5a", "#9aa0a6"];  // by number of page.spanNames
const TRACK = 22, GAP = 4, LABEL = 92;

function zoomTo(from, to) {
  const least = 1e-7;
  if (to - from < least) to = from + least;
  Object.assign(timeline, {from, to});
  drawTime();
}

function zoomLaunches(first, last) {
  const {start, seconds} = record.launches;
  if (last <= first) return zoomTo(0, record.end || 1);
  let from = Infinity, to = 0;
  for (let i = first; i < last; i++) { from = Math.min(from, start[i]); to = Math.max(to, start[i] + seconds[i]); }
  const edge = (to - from) * 0.02;
  zoomTo(from - edge, to + edge);
}

// The first place in a track whose launch starts after a time.
function placeAfter(track, time) {
  let low = 0, high = track.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (record.launches.start[track[middle]] <= time) low = middle + 1; else high = middle;
  }
  return low;
}

function drawTime() {
  drawTracks();
  drawMemory();
}

function drawTracks() {
  const canvas = byId("timeline");
  canvas.style.height = Math.max(60, 22 + (record.tracks.length + 1) * (TRACK + GAP)) + "px";
  const [pen, width, height] = sheet(canvas), {from, to} = timeline;
  const x = time => LABEL + (time - from) / (to - from) * (width - LABEL);
  drawScale(pen, x, width, height);
  pen.save();
  pen.beginPath();
  pen.rect(LABEL, 0, width - LABEL, height);
  pen.clip();
  drawSpans(pen, x, 18);
  record.byTrack.forEach((track, number) => drawLaunches(pen, x, track, 18 + (number + 1) * (TRACK + GAP)));
  pen.restore();
  pen.fillStyle = color("ink");
  ["Python", ...record.tracks].forEach((name, number) => pen.fillText(name, 2, 18 + number * (TRACK + GAP) + 15, LABEL - 6));
  byId("range").textContent = `${clock(Math.max(0, from), (to - from) / 100)} to ${clock(to, (to - from) / 100)}, ${took(to - from)} shown`;
}

// A time with as many digits as tell it from the next, which is a step later.
function clock(time, step) {
  const [unit, name] = time < 1e-3 ? [1e6, "µs"] : time < 1 ? [1e3, "ms"] : [1, "s"];
  return `${(time * unit).toFixed(Math.max(0, Math.min(9, Math.ceil(-Math.log10(step * unit)))))} ${name}`;
}

function drawScale(pen, x, width, height) {
  const {from, to} = timeline, wanted = (to - from) / (width / 120);
  const power = Math.pow(10, Math.floor(Math.log10(wanted)));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= wanted);
  pen.strokeStyle = color("edge");
  pen.fillStyle = color("faint");
  pen.beginPath();
  for (let n = Math.ceil(from / step); n * step <= to; n++) {
    const at = Math.round(x(n * step)) + 0.5;
    if (at < LABEL) continue;
    pen.moveTo(at, 12);
    pen.lineTo(at, height);
    const text = clock(n * step, step);
    if (at + 3 + pen.measureText(text).width <= width) pen.fillText(text, at + 3, 11);
  }
  pen.stroke();
}

function drawSpans(pen, x, top) {
  // outer pieces end after inner ones, so that these come first in the list: draw the outer ones before them
  for (const isOuter of [true, false]) for (const [start, seconds, kind] of record.spans) {
    if ((kind === 0) !== isOuter || start > timeline.to || start + seconds < timeline.from) continue;
    pen.fillStyle = SHADES[kind % SHADES.length];
    const inset = kind ? 6 : 0;
    pen.fillRect(x(start), top + inset, Math.max(0.5, x(start + seconds) - x(start)), TRACK - inset);
  }
}

// The shortest piece of Python's work at a time; null where there is none.
function spanAt(time) {
  let found = null;
  for (const one of record.spans) if (one[0] <= time && time <= one[0] + one[1] && (!found || one[1] < found[1])) found = one;
  return found;
}

function drawLaunches(pen, x, track, top) {
  const {start, seconds, kernel} = record.launches, mine = search.matches();
  let last = -1;
  // a long launch may begin before what is seen: go back over a few
  for (let place = Math.max(0, placeAfter(track, timeline.from) - 50); place < track.length; place++) {
    const i = track[place];
    if (start[i] > timeline.to) break;
    if (start[i] + seconds[i] < timeline.from) continue;
    const left = x(start[i]), wide = Math.max(1, x(start[i] + seconds[i]) - left);
    if (left + wide <= last + 0.5 && i !== timeline.chosen) continue;  // hidden by what is drawn already
    last = left + wide;
    const lit = !mine || mine.has(kernel[i] + " " + record.launches.origin[i]);
    pen.fillStyle = i === timeline.chosen ? color("mark")
      : `hsl(${hue(kernelName(kernel[i]))} ${lit ? 60 : 8}% ${document.documentElement.dataset.theme === "dark" ? 48 : 58}%)`;
    pen.fillRect(left, top, wide, TRACK);
    if (wide > 40) {
      pen.fillStyle = "#fff";
      pen.fillText(kernelName(kernel[i]), left + 3, top + 15, wide - 6);
    }
  }
}

function launchAt(event) {
  const area = byId("timeline").getBoundingClientRect(), {from, to} = timeline;
  const time = from + (event.clientX - area.left - LABEL) / (area.width - LABEL) * (to - from);
  const number = Math.floor((event.clientY - area.top - 18) / (TRACK + GAP)) - 1, track = record.byTrack[number];
  if (!track) return -1;
  const near = (to - from) / area.width * 2, {start, seconds} = record.launches;
  for (let place = placeAfter(track, time + near) - 1; place >= 0 && place > placeAfter(track, time) - 50; place--) {
    const i = track[place];
    if (start[i] + seconds[i] + near >= time) return i;
  }
  return -1;
}

function spanUnder(event) {
  const area = byId("timeline").getBoundingClientRect(), {from, to} = timeline, height = event.clientY - area.top - 18;
  return height >= 0 && height < TRACK ? spanAt(from + (event.clientX - area.left - LABEL) / (area.width - LABEL) * (to - from)) : null;
}

function tell(event) {
  const i = launchAt(event), tip = byId("tip");
  byId("timeline").style.cursor = i < 0 ? "grab" : "pointer";
  const span = i < 0 ? spanUnder(event) : null;
  tip.hidden = i < 0 && !span;
  if (tip.hidden) return;
  const one = i < 0 ? null : firstLine(record.launches.origin[i]);
  tip.textContent = span ? `Python: ${page.spanNames[span[2]]}\n${took(span[1])}` : [kernelName(record.launches.kernel[i]), took(record.launches.seconds[i]),
    moduleOf(record.launches.origin[i]), one ? shortLine(one) : ""].filter(Boolean).join("\n");
  const area = byId("time").getBoundingClientRect();
  tip.style.left = Math.min(event.clientX - area.left + 12, area.width - 260) + "px";
  tip.style.top = event.clientY - area.top + 14 + "px";
}

function moveTime(canvas) {
  const span = () => (timeline.to - timeline.from) / (canvas.clientWidth - LABEL);
  canvas.onwheel = event => {
    event.preventDefault();
    timeline.follows = false;
    const at = timeline.from + (event.offsetX - LABEL) * span(), factor = Math.exp(event.deltaY * 0.0015);
    zoomTo(at - (at - timeline.from) * factor, at + (timeline.to - at) * factor);
  };
  let begun = null, moved = false;
  canvas.onpointerdown = event => { begun = [event.clientX, timeline.from, timeline.to]; moved = false; canvas.setPointerCapture(event.pointerId); };
  canvas.onpointermove = event => {
    if (!begun) return tell(event);
    const shift = (event.clientX - begun[0]) * (begun[2] - begun[1]) / (canvas.clientWidth - LABEL);
    if (Math.abs(event.clientX - begun[0]) > 3) moved = true;
    if (moved) { timeline.follows = false; zoomTo(begun[1] - shift, begun[2] - shift); }
  };
  canvas.onpointerup = event => {
    begun = null;
    const i = moved ? -1 : launchAt(event);
    if (i >= 0) chooseLaunch(i);
  };
  canvas.onpointerleave = () => { byId("tip").hidden = true; };
  canvas.ondblclick = () => zoomTo(0, record.end || 1);
}

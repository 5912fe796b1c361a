// Memory over time below the time line, and the roofline: how near each kernel comes to the best of this run.
"use strict";

function drawMemory() {
  const [pen, width, height] = sheet(byId("memory")), {from, to} = timeline;
  const used = new Map();
  let most = 1, peak = 0;
  const levels = record.memory.map(([time, device, bytes]) => {
    const now = Math.max(0, (used.get(device) || 0) + bytes);
    used.set(device, now);
    most = Math.max(most, now);
    if (time >= from && time <= to) peak = Math.max(peak, now);
    return [time, device, now];
  });
  const x = time => LABEL + (time - from) / (to - from) * (width - LABEL), y = bytes => height - 2 - bytes / most * (height - 14);
  for (const device of used.keys()) {
    pen.strokeStyle = `hsl(${hue(device)} 60% 50%)`;
    pen.fillStyle = `hsl(${hue(device)} 60% 50% / 0.15)`;
    pen.beginPath();
    pen.moveTo(LABEL, height);
    let before = 0, column = -1;
    for (const [time, name, bytes] of levels) {
      if (name !== device) continue;
      const at = Math.max(LABEL, x(time));
      if (at > width) break;
      if (Math.floor(at * 2) !== column || bytes > before) { pen.lineTo(at, y(before)); pen.lineTo(at, y(bytes)); }
      column = Math.floor(at * 2);
      before = bytes;
    }
    pen.lineTo(width, y(before));
    pen.stroke();
    pen.lineTo(width, height);
    pen.fill();
  }
  pen.fillStyle = color("ink");
  pen.fillText("memory", 2, 14);
  pen.fillStyle = color("faint");
  pen.fillText(used.size ? `up to ${sized(most)}` : "", 2, 28, LABEL - 6);
}

// Points of kernels: operations for each byte, operations per second. Roofs are the highest rates seen in this run.
function drawRoofline(canvas, chosen, choose) {
  const [pen, width, height] = sheet(canvas);
  const points = groups().filter(one => one.flops && one.bytes && one.seconds)
    .map(one => ({one, x: one.flops / one.bytes, y: one.flops / one.seconds}));
  pen.fillStyle = color("faint");
  if (!points.length) { pen.fillText("no kernel with operations and bytes yet", 20, 30); return; }
  const bytes = Math.max(...groups().map(one => one.seconds ? one.bytes / one.seconds : 0));
  const flops = Math.max(...points.map(one => one.y)), log = Math.log10;
  const left = Math.min(...points.map(one => one.x)) / 2, right = Math.max(flops / bytes, ...points.map(one => one.x)) * 2;
  const low = Math.min(...points.map(one => one.y)) / 2, high = flops * 2;
  const x = value => 60 + (log(value) - log(left)) / (log(right) - log(left)) * (width - 80);
  const y = value => height - 34 - (log(value) - log(low)) / (log(high) - log(low)) * (height - 54);
  pen.strokeStyle = color("edge");
  for (let n = Math.ceil(log(low)); n <= log(high); n++) {
    pen.fillText(`${+(10 ** (n - 9)).toPrecision(1)}`, 4, y(10 ** n) + 4, 52);
    pen.beginPath(); pen.moveTo(60, y(10 ** n)); pen.lineTo(width - 20, y(10 ** n)); pen.stroke();
  }
  for (let n = Math.ceil(log(left)); n <= log(right); n++) pen.fillText(`${+(10 ** n).toPrecision(1)}`, x(10 ** n) - 6, height - 18);
  pen.fillText("GFLOPS", 4, 14);
  pen.fillText("operations for each byte that is read or written", width / 2 - 120, height - 4);
  pen.strokeStyle = color("mark");
  pen.beginPath();
  pen.moveTo(x(left), y(Math.max(low, left * bytes)));
  pen.lineTo(x(flops / bytes), y(flops));
  pen.lineTo(x(right), y(flops));
  pen.stroke();
  pen.fillText(`highest of this run: ${(bytes * 1e-9).toFixed(1)} GB/s, ${(flops * 1e-9).toFixed(1)} GFLOPS`, 66, 14);
  const whole = Math.max(...points.map(point => point.one.seconds));
  for (const point of points) {
    pen.fillStyle = point.one === chosen ? color("mark") : `hsl(${hue(kernelName(point.one.kernel))} 60% 50% / 0.75)`;
    pen.beginPath();
    pen.arc(x(point.x), y(point.y), 3 + 9 * Math.sqrt(point.one.seconds / whole), 0, 7);
    pen.fill();
  }
  canvas.onclick = event => {
    const distance = point => Math.hypot(x(point.x) - event.offsetX, y(point.y) - event.offsetY);
    const near = points.reduce((best, point) => distance(point) < distance(best) ? point : best);
    if (distance(near) < 20) choose(near.one);
  };
}

// What is recorded: columns of launches and lists that grow by news of the server, or come whole in a saved file.
"use strict";

const COLUMNS = ["start", "seconds", "kernel", "origin", "track", "flops", "bytes"];
const record = {
  kernels: [], schedules: [], origins: [], tracks: [], spans: [], memory: [], omitted: 0, cut: false,
  lines: [],           // of the user, the longest first: [place, function, seconds by LINE_KINDS, requests, compiled]
  told: [],            // what is worth a look, as sentences
  launches: Object.fromEntries(COLUMNS.map(name => [name, []])),
  groups: new Map(),   // "kernel origin" -> {kernel, origin, seconds, count, flops, bytes, first}
  byTrack: [],         // launches of each track, by start
  end: 0, version: 0,
};

function addNews(news) {
  for (const name of ["kernels", "schedules", "origins", "tracks", "spans", "memory"])
    for (const one of news[name]) record[name].push(one);
  const from = record.launches.start.length, columns = record.launches;
  for (const name of COLUMNS) for (const one of news.launches[name]) columns[name].push(one);
  for (let i = from; i < columns.start.length; i++) {
    const key = columns.kernel[i] + " " + columns.origin[i];
    let group = record.groups.get(key);
    if (!group) {
      group = {kernel: columns.kernel[i], origin: columns.origin[i], seconds: 0, count: 0, flops: 0, bytes: 0, first: i};
      record.groups.set(key, group);
    }
    group.seconds += columns.seconds[i];
    group.count++;
    group.flops += columns.flops[i];
    group.bytes += columns.bytes[i];
    const track = record.byTrack[columns.track[i]] ??= [];
    if (track.length && columns.start[track[track.length - 1]] > columns.start[i]) track.unsorted = true;
    track.push(i);
    record.end = Math.max(record.end, columns.start[i] + columns.seconds[i]);
  }
  for (const track of record.byTrack)
    if (track && track.unsorted) { track.sort((a, b) => columns.start[a] - columns.start[b]); track.unsorted = false; }
  for (const [start, seconds] of news.spans) record.end = Math.max(record.end, start + seconds);
  Object.assign(record, {omitted: news.omitted, cut: news.cut, lines: news.lines, told: news.told});
  const some = from < columns.start.length || news.kernels.length || news.schedules.length || news.spans.length;
  if (some) record.version++;
  return Boolean(some);
}

const kernelName = number => record.kernels[number][0];
const firstLine = number => number >= 0 && record.origins[number].length ? record.origins[number][0] : null;
const lineText = ([file, line, , backward]) => `${file}:${line}${backward ? " backward" : ""}`;
const shortLine = one => lineText([one[0].split(/[\\/]/).pop(), ...one.slice(1)]);

function moduleOf(number) {
  const one = firstLine(number);
  return one && one[2] ? one[2] + (one[3] ? " backward" : "") : "";
}

// The last step: the launches at the end that repeat those before them, as [from, to] in numbers of launches.
function lastStep() {
  const {kernel, origin} = record.launches, count = kernel.length;
  const same = (a, b) => kernel[a] === kernel[b] && origin[a] === origin[b];
  for (let period = 1; period <= Math.min(5000, count >> 1); period++) {
    let i = count - 1;
    while (i >= count - period && same(i, i - period)) i--;
    if (i < count - period && (period > 2 || count < 4 * period || same(count - 1, count - 1 - 3 * period)))
      return [count - period, count];
  }
  return [0, count];
}

const details = new Map();  // "kernel 3" -> its stages, or the promise of them

// The stages of a kernel or schedule: from the server, or out of the saved file, where they are compressed.
function stagesOf(kind, number) {
  const key = `${kind} ${number}`;
  if (!details.has(key)) details.set(key, readStages(kind, number).catch(error => { details.delete(key); throw error; }));
  return details.get(key);
}

async function readStages(kind, number) {
  if (page.live) return (await ask(`/${kind}/${number}`)).json();
  const block = byId(`${kind}-${number}`);
  if (!block) throw new Error("the file is not read to its end yet, or is cut off");
  const packed = Uint8Array.from(atob(block.textContent), letter => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

async function ask(path) {
  const answer = await fetch(path, {headers: {"X-Token": token}, cache: "no-store"}).catch(() => {
    throw new Error("the program has ended; the file that it wrote has them");
  });
  if (!answer.ok) throw new Error(`the program answered ${answer.status}`);
  return answer;
}

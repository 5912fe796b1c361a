// The page: its views, search, keys and theme, and the news of a running program.
"use strict";

const page = JSON.parse(byId("data").textContent);
const token = new URLSearchParams(location.search).get("token") || "";
const search = {
  wanted: "",
  seen: null,
  // the groups that match, as a Set of keys; null where nothing is searched
  matches() {
    if (!this.wanted) return null;
    const key = this.wanted + " " + record.groups.size;
    if (this.seen?.key !== key) {
      const found = new Set();
      for (const [name, group] of record.groups) if (this.has(group.kernel, group.origin)) found.add(name);
      this.seen = {key, found};
    }
    return this.seen.found;
  },
  has(kernel, origin) {
    const lines = origin >= 0 ? record.origins[origin] : [];
    const text = [kernelName(kernel), ...lines.map(one => lineText(one) + " " + one[2])].join("\n");
    return text.toLowerCase().includes(this.wanted);
  },
};

let sorted = {key: "", list: []};
// Kernels by line, those that took longest first, and only those that match.
function groups() {
  const key = record.version + " " + search.wanted;
  if (sorted.key !== key) {
    const mine = search.matches();
    const list = [...record.groups].filter(([name]) => !mine || mine.has(name)).map(([, group]) => group);
    sorted = {key, list: list.sort((a, b) => b.seconds - a.seconds)};
  }
  return sorted.list;
}

let shownLaunches = {key: "", list: null};
function launches() {
  const mine = search.matches(), key = search.wanted + " " + record.version;
  if (mine && shownLaunches.key !== key) {
    const {kernel, origin} = record.launches, list = [];
    for (let i = 0; i < kernel.length; i++) if (mine.has(kernel[i] + " " + origin[i])) list.push(i);
    shownLaunches = {key, list};
  }
  return mine ? shownLaunches.list : null;
}

const VIEWS = {
  kernels: {
    columns: [["kernel", "0 0 21%", "name"], ["time", "0 0 12%", "num bar"], ["launches", "0 0 10%", "num"],
              ["GFLOPS", "0 0 9%", "num wide"], ["GB/s", "0 0 7%", "num wide"], ["module", "1 1 0", "tail"],
              ["line", "0 0 8em", "tail"]],
    count: () => groups().length,
    fill(cell, number) {
      const group = groups()[number], line = firstLine(group.origin);
      cell(kernelName(group.kernel));
      cell(took(group.seconds)).style.backgroundSize = `${100 * group.seconds / (groups()[0].seconds || 1)}% 2px`;
      cell(group.count);
      cell(rate(group.flops, group.seconds));
      cell(rate(group.bytes, group.seconds));
      cell(line && line[2] || "").title = moduleOf(group.origin);  // without "backward", which is behind the line
      cell(line ? shortLine(line).replace(" backward", " bwd") : "").title = line ? lineText(line) : "";
    },
    pick: number => showKernel(groups()[number]),
  },
  launches: {
    columns: [["#", "0 0 10%", "num"], ["starts at", "0 0 14%", "num wide"], ["kernel", "1 1 0", "name"], ["time", "0 0 14%", "num"],
              ["on", "0 0 12%", "wide"], ["line", "1 1 0"]],
    count: () => launches()?.length ?? record.launches.start.length,
    fill(cell, number) {
      const i = launches()?.[number] ?? number, one = record.launches, line = firstLine(one.origin[i]);
      cell(i + 1);
      cell(took(one.start[i]));
      cell(kernelName(one.kernel[i]));
      cell(took(one.seconds[i]));
      cell(record.tracks[one.track[i]]);
      cell(line ? shortLine(line) : "");
    },
    pick(number) {
      const i = launches()?.[number] ?? number;
      timeline.chosen = i;
      showKernel(record.groups.get(record.launches.kernel[i] + " " + record.launches.origin[i]));
      drawTracks();
    },
  },
  schedules: {
    columns: [["#", "0 0 10%", "num"], ["requested at", "1 1 0"], ["after", "0 0 15%", "num"], ["calls", "0 0 12%", "num"]],
    found() { return record.schedules.map((_, i) => i).filter(i => record.schedules[i][0].toLowerCase().includes(search.wanted)); },
    count() { return this.found().length; },
    fill(cell, number) {
      const i = this.found()[number], [where, at, calls] = record.schedules[i];
      cell(i + 1);
      cell(where);
      cell(took(at));
      cell(calls);
    },
    pick(number) { showSchedule(this.found()[number]); },
  },
  roofline: {},
  lines: {
    columns: [["line", "1 1 0"], ["function", "1 1 0", "wide"], ["time", "0 0 15%", "num bar"], ["mostly", "0 0 24%"],
              ["requests", "0 0 11%", "num wide"], ["compiled", "0 0 11%", "num wide"]],
    found() { return record.lines.filter(one => (one[0] + " " + one[1]).toLowerCase().includes(search.wanted)); },
    count() { return this.found().length; },
    fill(cell, number) {
      const [where, name, seconds, requests, compiled] = this.found()[number];
      const all = seconds.reduce((sum, one) => sum + one, 0), most = record.lines[0][2].reduce((sum, one) => sum + one, 0);
      cell(where.split(/[\\/]/).pop());
      cell(name);
      cell(took(all)).style.backgroundSize = `${100 * all / (most || 1)}% 2px`;
      const longest = seconds.indexOf(Math.max(...seconds));
      cell(all ? `${LINE_KINDS[longest]} ${(100 * seconds[longest] / all).toFixed(0)} %` : "");
      cell(requests || "");
      cell(compiled || "");
    },
    pick(number) { showLine(this.found()[number]); },
  },
};

let view = "kernels", rows = null;
function openView(name) {
  view = name;
  for (const tab of byId("views").children) tab.setAttribute("aria-selected", tab.dataset.view === name);
  const list = byId("list"), one = VIEWS[name];
  rows = null;
  if (name === "roofline") {
    const canvas = make("canvas");
    canvas.id = "roofline";
    canvas.style.height = "100%";
    list.replaceChildren(canvas);
  } else {
    rows = new Rows(list, one.columns, (cell, number) => one.fill(cell, number), number => one.pick(number));
  }
  draw();
}

function draw() {
  if (rows) rows.show(VIEWS[view].count());
  else drawRoofline(byId("roofline"), chosen.group, group => { showKernel(group); draw(); });
  drawTold();
  drawTime();
  const count = record.launches.start.length;
  const lost = (record.omitted ? `, ${record.omitted} more not recorded` : "") + (record.cut ? ", later stages left out" : "");
  byId("state").textContent = `${page.state || (page.live ? "● running" : "saved")} · ${count} launches, ` +
    `${record.kernels.length} kernels${lost}`;
}

// What is worth a look: a sentence leads to the time by lines.
function drawTold() {
  const holder = byId("told"), key = record.told.join("\n");
  if (holder.dataset.key === key) return;
  holder.dataset.key = key;
  holder.hidden = !record.told.length;
  holder.replaceChildren(...record.told.map(text => {
    const item = make("li", "", text);
    item.title = "the time by lines";
    item.onclick = () => openView("lines");
    return item;
  }));
}

function chooseLaunch(i) {
  openView("launches");
  const list = launches();
  rows.choose(list ? list.indexOf(i) : i);
}

let themeChosen = false;

function showStep() { zoomLaunches(...lastStep()); }

// What was chosen holds in each later page; until then the theme is the system's, also when that changes.
function chooseTheme(name) {
  themeChosen = true;
  try { localStorage.setItem("tinygraft-theme", name); } catch { /* a file has no storage in some browsers */ }
  setTheme(name);
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  if (rows || byId("roofline")) draw();
}

// This saved file again, without what the page has added to it.
function asSaved() {
  const copy = document.documentElement.cloneNode(true);
  for (const name of ["title", "state", "range", "legend", "views", "list", "details", "keys", "told"]) copy.querySelector("#" + name).replaceChildren();
  copy.querySelector("#told").removeAttribute("data-key");
  copy.querySelectorAll("[style]").forEach(element => element.removeAttribute("style"));
  return "<!doctype html>\n" + copy.outerHTML;
}

async function save() {
  const link = make("a");
  const text = page.live ? await (await ask("/save")).text() : asSaved();
  link.href = URL.createObjectURL(new Blob([text], {type: "text/html"}));
  link.download = "tinygraft.html";
  link.click();
}

const KEYS = [["/", "search"], ["1 to 5", "views"], ["↑ ↓", "row"], ["← →", "stage"], ["t", "last step"], ["w", "whole run"],
              ["+ −", "zoom"], ["d", "light or dark"], ["s", "save as one file"], ["?", "these keys"], ["Esc", "end the search"]];

document.onkeydown = event => {
  const typing = event.target === byId("search");
  if (event.key === "Escape") { byId("search").value = ""; byId("search").oninput(); byId("search").blur(); return; }
  if (typing && event.key !== "ArrowDown" && event.key !== "Enter") return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const zoom = factor => {
    const middle = (timeline.from + timeline.to) / 2, half = (timeline.to - timeline.from) / 2 * factor;
    timeline.follows = false;
    zoomTo(middle - half, middle + half);
  };
  const actions = {
    "/": () => byId("search").focus(), d: () => byId("theme").click(), s: () => byId("save").click(), "?": () => byId("help").click(),
    t: () => byId("step").click(), w: () => byId("whole").click(), "+": () => zoom(0.5), "-": () => zoom(2),
    ArrowDown: () => rows?.choose(rows.chosen + 1), ArrowUp: () => rows?.choose(rows.chosen - 1),
    Enter: () => rows?.choose(Math.max(0, rows.chosen)), ArrowRight: () => turnTab(1), ArrowLeft: () => turnTab(-1),
  };
  Object.keys(VIEWS).forEach((name, number) => { actions[number + 1] = () => openView(name); });
  if (actions[event.key]) { event.preventDefault(); if (typing) byId("search").blur(); actions[event.key](); }
};

async function follow() {
  const have = ["kernels", "schedules", "origins", "tracks", "spans", "memory"].map(name => `${name}=${record[name].length}`);
  try {
    const news = await (await ask(`/news?launches=${record.launches.start.length}&${have.join("&")}`)).json();
    page.missed = 0;
    if (addNews(news)) {
      if (timeline.follows) showStep();
      draw();
    }
  } catch {
    page.missed = (page.missed || 0) + 1;
    if (page.missed > 2) { page.state = "the program has ended"; draw(); return; }
  }
  setTimeout(follow, 500);
}

function begin() {
  let theme = null;
  try { theme = localStorage.getItem("tinygraft-theme"); } catch { /* as above */ }
  const dark = matchMedia("(prefers-color-scheme: dark)"), system = () => dark.matches ? "dark" : "light";
  themeChosen = Boolean(theme);
  setTheme(theme || system());
  dark.onchange = () => themeChosen || setTheme(system());
  byId("title").textContent = page.title;
  Object.keys(VIEWS).forEach((name, number) => {
    const tab = make("button", "", name);
    tab.dataset.view = name;
    tab.title = `key ${number + 1}`;
    tab.setAttribute("role", "tab");
    tab.onclick = () => openView(name);
    byId("views").append(tab);
  });
  page.spanNames.forEach((name, number) => {
    const mark = make("i", "shade");
    mark.style.background = SHADES[number % SHADES.length];
    byId("legend").append(mark, `${SPAN_WORDS[name] ?? name} `);
  });
  byId("search").oninput = () => { search.wanted = byId("search").value.trim().toLowerCase(); if (rows) rows.chosen = -1; draw(); };
  byId("theme").onclick = () => chooseTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  byId("save").onclick = save;
  byId("step").onclick = () => { timeline.follows = true; showStep(); };
  byId("whole").onclick = () => { timeline.follows = false; zoomTo(0, record.end || 1); };
  byId("keys").append(make("h2", "", "keys"), (() => { const list = make("dl"); KEYS.forEach(([key, does]) => list.append(make("dt", "name", key), make("dd", "", does))); return list; })());
  byId("help").onclick = () => byId("keys").open ? byId("keys").close() : byId("keys").show();
  byId("details").append(make("p", "empty", "choose a kernel: a row, a point of the roofline, or a launch of the time line"));
  moveTime(byId("timeline"));
  window.onresize = draw;
  if (!page.live) addNews(page);
  openView("kernels");
  showStep();
  if (page.live) follow();
}

begin();

// What is chosen, at the right: a kernel or a schedule, its numbers and lines, then its stages one after another.
"use strict";

const chosen = {kind: "", number: -1, group: null, tab: ""};

function showKernel(group) {
  Object.assign(chosen, {kind: "kernel", number: group.kernel, group});
  showDetails(kernelName(group.kernel), record.kernels[group.kernel][3] > 0, () => numbersOf(group));
}

function showSchedule(number) {
  Object.assign(chosen, {kind: "schedule", number, group: null});
  const [where, at, calls] = record.schedules[number];
  showDetails(`requested at ${where}`, true, () => pairs([["after", took(at)], ["calls", calls]]));
}

function showLine([where, name, seconds, requests, compiled]) {
  Object.assign(chosen, {kind: "line", number: where, group: null});
  showDetails(where, false, () => pairs([
    ["function", name],
    ["in all", took(seconds.reduce((sum, one) => sum + one, 0))],
    ...LINE_KINDS.map((kind, number) => [kind, seconds[number] ? `${took(seconds[number])}  ${ABOUT[number]}` : ""]),
    ["requests", requests ? `${requests} for values` : ""],
    ["compiled", compiled ? `${compiled} of them made kernels` : ""],
  ]));
}

const ABOUT = ["in Python itself, by samples", "making graphs in Python, by samples", "from a request to its launches",
               "scheduling, writing and compiling kernels", "running, or waiting for them"];

function pairs(list) {
  const holder = make("dl");
  for (const [name, value] of list) if (value !== "") holder.append(make("dt", "", name), make("dd", "", value));
  return holder;
}

function numbersOf(group) {
  const all = groups().reduce((sum, one) => sum + one.seconds, 0);
  const holder = pairs([
    ["module", moduleOf(group.origin) || "none"],
    ["device", record.kernels[group.kernel][1]],
    ["launches", group.count],
    ["time", `${took(group.seconds)}, ${(100 * group.seconds / all).toFixed(1)} % of all kernels`],
    ["each", took(group.seconds / group.count)],
    ["GFLOPS", rate(group.flops, group.seconds)],
    ["GB/s", rate(group.bytes, group.seconds)],
    ["operations a byte", group.bytes ? (group.flops / group.bytes).toFixed(2) : ""],
  ]);
  const lines = group.origin >= 0 ? record.origins[group.origin] : [];
  holder.append(make("dt", "", lines.length === 1 ? "line" : "lines"));
  const list = make("dd");
  for (const line of lines) list.append(make("div", "", lineText(line) + (line[2] ? `  ${line[2]}` : "")));
  if (!lines.length) list.append("not known");
  holder.append(list);
  return holder;
}

async function showDetails(title, hasStages, numbers) {
  const holder = byId("details"), tabs = make("div", "tabs"), body = make("div", "body"), key = `${chosen.kind} ${chosen.number}`;
  tabs.setAttribute("role", "tablist");
  holder.replaceChildren(make("h2", "name", title), tabs, body);
  let stages = [], failure = "";
  if (hasStages) {
    try { stages = await stagesOf(chosen.kind, chosen.number); }
    catch (error) { failure = make("p", "empty", `its stages cannot be read: ${error.message}`); }
  }
  if (`${chosen.kind} ${chosen.number}` !== key) return;  // something else was chosen meanwhile
  const pages = [["numbers", () => body.replaceChildren(numbers(), failure)]];
  for (const stage of stages) pages.push([label(stage), () => body.replaceChildren(...showStage(stage))]);
  pages.forEach(([name, show], number) => {
    const tab = make("button", "", name);
    tab.setAttribute("role", "tab");
    tab.onclick = () => {
      chosen.tab = name;
      tabs.querySelectorAll("button").forEach(one => one.setAttribute("aria-selected", one === tab));
      show();
    };
    tabs.append(tab);
    if (name === chosen.tab || (!number && !pages.some(([other]) => other === chosen.tab))) tab.click();
  });
}

const label = stage => stage.name === "binary" ? "assembly" : stage.name.replace(/^(schedule )?pass: /, "");

function showStage(stage) {
  const head = make("p", "rules", stage.about + (stage.seconds ? `, ${took(stage.seconds)}` : ""));
  const rules = stage.rules ? make("p", "rules", `rules: ${stage.rules}`) : "";
  const text = make("pre", "", stage.text || "nothing to show");
  if (!stage.graph || !stage.graph.boxes.length) return [head, rules, text];
  const area = make("div"), swap = make("button", "", "text");
  area.style.cssText = "position:relative;height:calc(100% - 4.5em);min-height:260px";
  area.append(drawGraph(stage.graph));
  swap.onclick = () => {
    const isGraph = swap.textContent === "text";
    area.replaceChildren(isGraph ? text : drawGraph(stage.graph));
    swap.textContent = isGraph ? "graph" : "text";
  };
  head.append(" ", swap);
  return [head, rules, area];
}

function turnTab(by) {
  const tabs = [...byId("details").querySelectorAll("[role=tab]")];
  const now = tabs.findIndex(tab => tab.getAttribute("aria-selected") === "true");
  if (now >= 0) tabs[Math.max(0, Math.min(tabs.length - 1, now + by))].click();
}

// A graph of boxes, laid out by dagre: sources above, results below. It moves with the mouse and the wheel.
"use strict";

const KINDS = {number: "numbers", memory: "memory", movement: "movement", math: "elementwise", reduce: "reductions",
               range: "ranges", call: "calls", control: "others"};

function shape(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  return element;
}

function layOut(boxes) {
  const graph = new dagre.graphlib.Graph({multigraph: true});
  graph.setGraph({nodesep: 18, ranksep: 28, ranker: boxes.length > 200 ? "longest-path" : "network-simplex"});
  graph.setDefaultEdgeLabel(() => ({}));
  boxes.forEach(([, title, lines], number) => {
    const longest = Math.max(title.length + 1, ...lines.map(line => line.length), 4);
    graph.setNode(String(number), {width: longest * 6.8 + 16, height: (1 + lines.length) * 15 + 9});
  });
  boxes.forEach(([, , , sources], number) => sources.forEach((source, slot) =>
    graph.setEdge(String(source), String(number), {}, String(slot))));
  dagre.layout(graph);
  return graph;
}

function drawGraph({boxes, omitted}) {
  const holder = make("div", "graph"), svg = shape("svg", {}), root = shape("g", {}), graph = layOut(boxes);
  const touching = boxes.map(() => []);
  for (const edge of graph.edges()) {
    const points = graph.edge(edge).points, [first, ...rest] = points, end = points[points.length - 1];
    const line = shape("path", {d: `M${first.x},${first.y}` + rest.map(({x, y}) => `L${x},${y}`).join("") +
      `M${end.x - 3.5},${end.y - 6}L${end.x},${end.y}L${end.x + 3.5},${end.y - 6}`});
    root.append(line);
    touching[edge.v].push([line, edge.w]);
    touching[edge.w].push([line, edge.v]);
  }
  const drawn = boxes.map((box, number) => drawBox(box, graph.node(String(number))));
  root.append(...drawn);
  drawn.forEach((box, number) => {
    box.onmouseenter = () => {
      svg.classList.add("some");
      box.classList.add("lit");
      for (const [line, other] of touching[number]) { line.classList.add("lit"); drawn[other].classList.add("lit"); }
    };
    box.onmouseleave = () => {
      svg.classList.remove("some");
      svg.querySelectorAll(".lit").forEach(element => element.classList.remove("lit"));
    };
  });
  svg.append(root);
  holder.append(svg);
  moveGraph(holder, root, graph.graph());
  const kinds = [...new Set(boxes.map(box => box[0]))].map(kind => KINDS[kind] || kind).join(", ");
  holder.append(make("div", "note", kinds + (omitted ? `; the ${boxes.length} nodes nearest the result, ${omitted} more are not drawn` : "")));
  return holder;
}

function drawBox([kind, title, lines], {x, y, width, height}) {
  const box = shape("g", {transform: `translate(${x - width / 2},${y - height / 2})`});
  const rect = shape("rect", {width, height, rx: 6});
  rect.style.fill = `var(--${kind in KINDS ? kind : "control"})`;
  box.append(rect);
  [title, ...lines].forEach((words, number) => {
    const label = shape("text", {x: width / 2, y: 16 + 15 * number, "text-anchor": "middle", class: number ? "" : "title"});
    label.textContent = words;
    box.append(label);
  });
  return box;
}

function moveGraph(holder, root, {width, height}) {
  let scale = 1, left = 0, top = 0;
  const apply = () => root.setAttribute("transform", `translate(${left},${top}) scale(${scale})`);
  requestAnimationFrame(() => {
    scale = Math.max(0.35, Math.min(1.15, (holder.clientWidth - 40) / width, (holder.clientHeight - 50) / height));
    left = (holder.clientWidth - width * scale) / 2;
    top = Math.min(20, holder.clientHeight - height * scale - 40);
    apply();
  });
  holder.onwheel = event => {
    event.preventDefault();
    const factor = Math.exp(-event.deltaY * 0.0015), area = holder.getBoundingClientRect();
    const x = event.clientX - area.left, y = event.clientY - area.top;
    left = x - (x - left) * factor;
    top = y - (y - top) * factor;
    scale *= factor;
    apply();
  };
  holder.onpointerdown = event => {
    const x = event.clientX - left, y = event.clientY - top;
    holder.setPointerCapture(event.pointerId);
    holder.onpointermove = move => { left = move.clientX - x; top = move.clientY - y; apply(); };
    holder.onpointerup = () => { holder.onpointermove = null; };
  };
}

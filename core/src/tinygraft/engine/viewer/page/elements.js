// Small helpers: elements with text, numbers as people read them. All text goes through textContent: never as HTML.
"use strict";

const LINE_KINDS = ["program", "graphs", "preparing", "compiling", "kernels"];
const SPAN_WORDS = {realize: "prepare", schedule: "schedule", lower: "write kernels", compile: "compile", wait: "wait"};
const byId = id => document.getElementById(id);

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// Text with the places that match the search marked.
function marked(element, text, wanted) {
  const at = wanted ? text.toLowerCase().indexOf(wanted) : -1;
  if (at < 0) { element.textContent = text; return element; }
  element.append(text.slice(0, at), make("mark", "", text.slice(at, at + wanted.length)), text.slice(at + wanted.length));
  return element;
}

function took(seconds) {
  const size = Math.abs(seconds);
  if (size < 1e-3) return (seconds * 1e6).toFixed(2) + " µs";
  if (size < 1) return (seconds * 1e3).toFixed(2) + " ms";
  return seconds.toFixed(2) + " s";
}

function sized(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (Math.abs(bytes) >= 1000 && unit < units.length - 1) { bytes /= 1000; unit++; }
  return (unit ? bytes.toFixed(2) : bytes) + " " + units[unit];
}

const rate = (amount, seconds) => seconds > 0 && amount ? (amount / seconds * 1e-9).toFixed(2) : "";
const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// A hue for a name that is the same each time.
function hue(name) {
  let sum = 7;
  for (let i = 0; i < name.length; i++) sum = (sum * 31 + name.charCodeAt(i)) >>> 0;
  return (sum * 137.508) % 360;
}

// A canvas in the pixels of the screen, and its drawing context in those of the page.
function sheet(canvas) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif";
  return [pen, width, height];
}

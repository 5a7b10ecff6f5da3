"use strict";
// The page's data: `facts` is JSON; the arrays and long lists are gzip in base64, cut into typed arrays.
const $ = (id) => document.getElementById(id);
const facts = JSON.parse($("facts").textContent);
const arrays = {};
const TYPES = { int8: Int8Array, uint8: Uint8Array, int16: Int16Array, int32: Int32Array, uint32: Uint32Array, float32: Float32Array };
const NEAREST = 10, TELLING = 4, LEVELS = 254;

// What the map needs ("first") stands before the scripts, the rest behind them: the map is drawn while it is parsed.
async function readArrays(part) {
  const packed = fromBase64($(part).textContent);
  $(part).remove();
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  for (const [name, { type, at, length }] of Object.entries(facts.arrays[part])) arrays[name] = new TYPES[type](buffer, at, length);
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const plain = atob(text), bytes = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) bytes[i] = plain.charCodeAt(i);
  return bytes;
}

async function readRest() {
  if (document.readyState === "loading") await new Promise((go) => addEventListener("DOMContentLoaded", go));
  await readArrays("rest");
  Object.assign(facts, JSON.parse(new TextDecoder().decode(arrays.lists)));
}

// An element with properties and children; strings become text, never HTML: names come from data.
function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "style") Object.assign(node.style, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && !name.includes("-")) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined).map((c) => (c instanceof Node ? c : String(c))));
  return node;
}

const idOf = (i) => (facts.ids ? facts.ids[i] : String(i));
let places = null;
function placeOf(id) {
  if (!facts.ids) return /^\d+$/.test(id) && +id < facts.shown ? +id : -1;
  if (!places) places = new Map(facts.ids.map((name, i) => [name, i]));
  return places.has(id) ? places.get(id) : -1;
}
const number = (v) => (Number.isInteger(v) ? v.toLocaleString("en") : Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(2) : String(+v.toPrecision(4)));
const percent = (v) => (100 * v).toFixed(v < 0.1 ? 1 : 0) + "%";
const clusterName = (i) => "cluster " + facts.clusters[i].cluster;
const clusterCount = () => (facts.clusters.length === 1 ? "1 cluster" : `${facts.clusters.length.toLocaleString("en")} clusters`);
const className = (c) => (c < 0 ? "unknown" : facts.classes[c].name);
const swatch = (colour) => el("span", { className: "swatch", style: { background: colour } });

function tellingOf(i) {
  const found = [];
  if (!arrays.telling) return found;
  for (let j = TELLING * i; j < TELLING * (i + 1); j++)
    if (arrays.telling[j] >= 0) found.push([facts.feature_names[arrays.telling[j]], tellingText(arrays.telling[j], arrays.telling_value[j])]);
  return found;
}
// Of prepared columns numbers are deviations from the mean; of others it only counts that the node has them.
function tellingText(feature, value) {
  if (!facts.prepared) return number(value);
  return arrays.telling_number[feature] ? (value > 0 ? "+" : "−") + Math.abs(value).toFixed(1) + " sd" : "";
}

// The ways to colour the map: each gives groups {codes, names, colours} or a scale {values in 0..1, ends}.
function groupsBy(kind) {
  if (kind === "cluster") {
    const names = facts.clusters.map((_, i) => clusterName(i));
    return { codes: arrays.cluster, names, colours: facts.clusters.map((c) => c.colour) };
  }
  const names = [...facts.classes.map((c) => c.name), "unknown"];
  const codes = Int32Array.from(arrays.label, (c) => (c < 0 ? names.length - 1 : c));
  return { codes, names, colours: [...facts.classes.map((c) => c.colour), facts.unknown] };
}

function scaleBy(kind) {
  if (kind === "confidence") return { values: Float32Array.from(arrays.confidence, (v) => v / 255), ends: ["0", "1"], caption: "Confidence: 1 at the centre of its cluster, 0 between two" };
  if (kind === "degree") {
    const top = arrays.degree.reduce((a, b) => Math.max(a, b), 1);
    return { values: Float32Array.from(arrays.degree, (v) => Math.log1p(v) / Math.log1p(top)), ends: ["0", number(top)], caption: "Graph neighbours (logarithmic)" };
  }
  const feature = facts.features[kind];
  const values = new Float32Array(facts.shown);
  if (feature.dense !== undefined) {
    const at = feature.dense * facts.shown;
    for (let i = 0; i < facts.shown; i++) values[i] = arrays.feature_dense[at + i] / LEVELS;
  } else {
    values.fill(feature.high > feature.low ? -feature.low / (feature.high - feature.low) : 0);
    for (let j = arrays.feature_start[feature.sparse]; j < arrays.feature_start[feature.sparse + 1]; j++)
      values[arrays.feature_node[j]] = arrays.feature_level[j] / LEVELS;
  }
  return { values, ends: feature.ends || [number(feature.low), number(feature.high)], caption: feature.name };
}

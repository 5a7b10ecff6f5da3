// The map: regl-scatterplot draws; here are colours, labels, the tip, selection and keys.
const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
const map = { plot: null, x: null, y: null, spatialIndex: undefined, shownBy: null, only: -1, selected: -1, anchors: [] };
const dark = () => document.documentElement.dataset.theme === "dark";
const stops = () => (dark() ? VIRIDIS.slice(2) : VIRIDIS.slice(0, -1).reverse()); // low values fade into the page
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

function startMap() {
  const n = facts.shown;
  map.x = new Float32Array(n);
  map.y = new Float32Array(n);
  for (let i = 0; i < n; i++) {
    map.x[i] = arrays.xy[2 * i] / 32767;
    map.y[i] = arrays.xy[2 * i + 1] / 32767;
  }
  map.anchors = [...middles().entries()].map(([cluster, point]) => [point, cluster]);
  if (!document.createElement("canvas").getContext("webgl")) return void ($("no-webgl").hidden = false);
  const size = n > 50000 ? 2.2 : n > 10000 ? 3.2 : n > 2000 ? 6 : 9;
  map.plot = regl_scatterplot.default({
    canvas: $("canvas"), width: "auto", height: "auto", pointSize: size, pointSizeSelected: 4, pointOutlineWidth: 2, colorBy: "z",
    opacity: n > 50000 ? 0.6 : 0.85, opacityInactiveMax: 0.8, opacityInactiveScale: 0.6, cameraDistance: wholeDistance(), actionKeyMap: {}, pointColor: [facts.unknown], lassoInitiator: false,
  });
  $("plot").setAttribute("aria-label", `Map of ${n.toLocaleString("en")} nodes; near on the map means similar vectors`);
}

// Answers to mouse and keys, once names and neighbours are there.
function listenToMap() {
  if (!map.plot) return;
  map.plot.subscribe("pointOver", (i) => showTip(i));
  map.plot.subscribe("pointOut", () => ($("tip").hidden = true));
  map.plot.subscribe("select", ({ points }) => points.length && points[0] !== map.selected && selectNode(points[0]));
  map.plot.subscribe("deselect", () => selectNode(-1));
  map.plot.subscribe("view", () => { placeLabels(); $("tip").hidden = true; });
  addEventListener("resize", () => setTimeout(placeLabels, 60));
  $("plot").addEventListener("keydown", onKey);
}

// Of each cluster on the map the node nearest to its middle, in one pass: its label stands there.
function middles() {
  const found = new Map(), least = new Float64Array(facts.clusters.length).fill(Infinity);
  for (let i = 0; i < facts.shown; i++) {
    const cluster = arrays.cluster[i], at = facts.clusters[cluster].at;
    const d = (map.x[i] - at[0]) ** 2 + (map.y[i] - at[1]) ** 2;
    if (d < least[cluster]) { least[cluster] = d; found.set(cluster, i); }
  }
  return found;
}

function nearestPoint(x, y) {
  let best = -1, least = Infinity;
  for (let i = 0; i < facts.shown; i++) {
    const d = (map.x[i] - x) ** 2 + (map.y[i] - y) ** 2;
    if (d < least) { least = d; best = i; }
  }
  return best;
}

async function colourBy(kind) {
  map.kind = kind;
  map.only = -1;
  const grouped = kind === "cluster" || kind === "class";
  map.shownBy = grouped ? groupsBy(kind) : scaleBy(kind);
  drawLegend();
  await paint(true);
  placeLabels();
}

// One drawing after the other: the library refuses a second one while the first is under way.
let painting = Promise.resolve();
const paint = (newValues) => (painting = painting.then(() => paintNow(newValues)));

async function paintNow(newValues) {
  if (!map.plot) return;
  const shown = map.shownBy;
  const faint = getComputedStyle(document.documentElement).getPropertyValue("--faint").trim();
  let colours = shown.codes ? shown.colours.map((c, i) => (map.only < 0 || map.only === i ? c : faint)) : stops();
  if (!shown.codes) colours = ramp(colours, 128);
  if (colours.length === 1) colours = [colours[0], colours[0]];
  const ink = dark() ? "#ffffff" : "#101418";
  map.plot.set({ pointColor: colours, pointColorActive: ink, pointColorHover: ink, backgroundColor: dark() ? "#181e27" : "#ffffff" });
  if (!newValues) return;
  const z = shown.codes || shown.values;
  const options = { zDataType: shown.codes ? "categorical" : "continuous", spatialIndex: map.spatialIndex, preventFilterReset: true };
  await map.plot.draw({ x: map.x, y: map.y, z }, options);
  map.spatialIndex = map.plot.get("spatialIndex");
  const order = shown.codes ? null : Uint32Array.from(z.keys()).sort((a, b) => z[a] - z[b]); // high values on top
  map.plot.set({ pointOrder: order && [...order] });
  if (map.selected >= 0) highlight(map.selected);
}

function ramp(stops, count) {
  const parts = stops.map((s) => [1, 3, 5].map((i) => parseInt(s.slice(i, i + 2), 16)));
  return Array.from({ length: count }, (_, i) => {
    const at = (i / (count - 1)) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
    const mix = parts[low].map((v, k) => Math.round(v + (at - low) * (parts[low + 1][k] - v)));
    return "#" + mix.map((v) => v.toString(16).padStart(2, "0")).join("");
  });
}

function drawLegend() {
  const { codes, names, colours, ends, caption } = map.shownBy;
  const legend = $("legend");
  legend.replaceChildren();
  if (!codes) {
    legend.append(el("p", { className: "caption" }, caption), el("div", { className: "scale", style: { background: `linear-gradient(90deg, ${stops().join(",")})` } }));
    return void legend.append(el("div", { className: "ends" }, ...ends.map((end) => el("span", {}, end))));
  }
  const counts = new Uint32Array(names.length);
  for (const code of codes) counts[code]++;
  const order = [...names.keys()].filter((i) => counts[i]).sort((a, b) => counts[b] - counts[a]);
  for (const i of order) {
    const count = el("span", { className: "count" }, counts[i].toLocaleString("en"));
    const entry = el("button", { type: "button", "aria-pressed": "false", title: "Single out " + names[i] }, swatch(colours[i]), el("span", { className: "name" }, names[i]), count);
    entry.dataset.group = i;
    entry.addEventListener("click", () => singleOut(map.only === i ? -1 : i));
    legend.append(entry);
  }
}

function singleOut(group) {
  map.only = group;
  for (const entry of $("legend").querySelectorAll("button")) entry.setAttribute("aria-pressed", String(+entry.dataset.group === group));
  paint(false);
  placeLabels();
  if (group >= 0) say(`Only ${map.shownBy.names[group]} is coloured.`);
}

function placeLabels() {
  if (!map.plot) return;
  const shown = map.kind === "cluster" && map.anchors.length > 1 ? map.anchors : [];
  const taken = [];
  $("labels").replaceChildren();
  for (const [point, cluster] of [...shown].sort((a, b) => facts.clusters[b[1]].on_map - facts.clusters[a[1]].on_map)) {
    const at = map.plot.getScreenPosition(point);
    if (!at || (map.only >= 0 && map.only !== cluster) || taken.some(([x, y]) => Math.abs(x - at[0]) < 34 && Math.abs(y - at[1]) < 20)) continue;
    taken.push(at);
    $("labels").append(el("span", { style: { left: at[0] + "px", top: at[1] + "px", borderColor: facts.clusters[cluster].colour } }, facts.clusters[cluster].cluster));
  }
}

function showTip(i) {
  const at = map.plot.getScreenPosition(i), tip = $("tip"), box = $("plot").getBoundingClientRect();
  const lines = [el("div", {}, el("b", {}, idOf(i))), el("div", {}, clusterName(arrays.cluster[i]) + ", confidence " + (arrays.confidence[i] / 255).toFixed(2))];
  if (facts.classes.length) lines.push(el("div", {}, "class: " + className(arrays.label[i])));
  for (const [name, text] of tellingOf(i)) lines.push(el("div", {}, name + (text && text !== "1" ? ": " + text : "")));
  tip.replaceChildren(...lines);
  tip.hidden = false;
  tip.style.left = Math.max(4, Math.min(at[0] + 14, box.width - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(at[1] + 14, box.height - tip.offsetHeight - 8)) + "px";
}

function highlight(i) {
  const near = [...arrays.near.subarray(nearCount() * i, nearCount() * (i + 1))];
  map.plot.select([i, ...near], { preventEvent: true });
  const lines = [...linkedTo(i)].map((j) => ({ vertices: [[map.x[i], map.y[i]], [map.x[j], map.y[j]]], lineColor: "#7a8796", lineWidth: 1.5 }));
  if (lines.length) map.plot.drawAnnotations(lines);
  else map.plot.clearAnnotations();
}
const nearCount = () => Math.min(NEAREST, arrays.near.length / facts.shown);
const linkedTo = (i) => arrays.linked.subarray(arrays.linked_start[i], arrays.linked_start[i + 1]);

function selectNode(i, { move = false } = {}) {
  map.selected = i;
  showNode(i);
  if (i >= 0) say(`${idOf(i)}, ${clusterName(arrays.cluster[i])}${facts.classes.length ? ", class " + className(arrays.label[i]) : ""}`);
  if (!map.plot) return;
  if (i < 0) {
    map.plot.deselect({ preventEvent: true });
    return void map.plot.clearAnnotations();
  }
  highlight(i);
  if (move) map.plot.zoomToLocation([map.x[i], map.y[i]], Math.min(0.35, map.plot.get("cameraDistance")), { transition: !calm, transitionDuration: 400 });
}

function onKey(event) {
  const target = map.plot.get("cameraTarget"), distance = map.plot.get("cameraDistance");
  const look = (x, y, d) => map.plot.zoomToLocation([x, y], d, { transition: false });
  const step = 0.2 * distance;
  const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
  if (event.target !== $("plot") && event.target !== $("canvas")) return;
  if (moves[event.key]) look(target[0] + moves[event.key][0], target[1] + moves[event.key][1], distance);
  else if (event.key === "+" || event.key === "=") look(target[0], target[1], distance / 1.5);
  else if (event.key === "-") look(target[0], target[1], distance * 1.5);
  else if (event.key === "0") wholeMap();
  else if (event.key === "Enter") selectNode(nearestPoint(target[0], target[1]));
  else if (event.key === "Escape") { selectNode(-1); singleOut(-1); }
  else return;
  event.preventDefault();
}

// The camera sees -1..1 from top to bottom at distance 1; in a plot that is higher than wide it must stand farther off.
const wholeDistance = () => Math.max(1, $("plot").clientHeight / $("plot").clientWidth);

function wholeMap() {
  if (map.plot) map.plot.zoomToLocation([0, 0], wholeDistance(), { transition: !calm, transitionDuration: 400 });
}
const say = (text) => ($("spoken").textContent = text);

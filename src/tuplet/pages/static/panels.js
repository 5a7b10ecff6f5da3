// What stands around and below the map, and the start of it all.
function nodeButton(i, extra) {
  const colour = facts.clusters[arrays.cluster[i]].colour;
  return el("li", {}, el("button", { type: "button", onclick: () => selectNode(i, { move: true }) }, swatch(colour), el("span", { className: "name" }, idOf(i)), extra ? el("span", { className: "cos" }, extra) : null));
}

function showNode(i) {
  const panel = $("node");
  if (i < 0) {
    const lines = ["Each dot is a node; dots near each other have similar vectors.", "Click a dot, or find one by its id, to see its nearest nodes and its neighbours in the graph.", "Click a name in the legend to single out a group."];
    return void panel.replaceChildren(el("h2", {}, "Look around"), ...lines.map((text) => el("p", { className: "lead", style: { marginTop: "8px" } }, text)), ...facts.notes.map((text) => el("p", { className: "small", style: { marginTop: "8px" } }, text)));
  }
  const rows = [["cluster", [swatch(facts.clusters[arrays.cluster[i]].colour), " ", clusterName(arrays.cluster[i])]], ["confidence", [(arrays.confidence[i] / 255).toFixed(2)]]];
  if (facts.classes.length) rows.push(["class", [className(arrays.label[i])]]);
  rows.push(["neighbours", [arrays.degree[i].toLocaleString("en")]]);
  panel.replaceChildren(el("h2", {}, idOf(i)), el("dl", { className: "facts" }, ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, ...value)])));
  const telling = tellingOf(i);
  if (telling.length) panel.append(el("h3", {}, "Telling features"), el("dl", { className: "facts" }, ...telling.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])));
  const near = [...arrays.near.subarray(nearCount() * i, nearCount() * (i + 1))];
  panel.append(el("h3", {}, "Nearest by vector (cosine)"), el("ul", { className: "nodes" }, ...near.map((j, at) => nodeButton(j, (arrays.cosine[nearCount() * i + at] / 127).toFixed(2)))));
  const linked = [...linkedTo(i)], total = arrays.degree[i];
  const count = linked.length < total ? `${linked.length} of ${total.toLocaleString("en")}` : String(total);
  panel.append(el("h3", {}, (facts.directed ? "Edges lead to" : "Neighbours in the graph") + ` (${count})`), el("ul", { className: "nodes" }, ...linked.map((j) => nodeButton(j))));
}

function showHead() {
  $("title").textContent = facts.title;
  $("subtitle").textContent = [...facts.graph, clusterCount()].join(" · ");
  for (const text of facts.warnings) $("warnings").append(el("p", { className: "warning", role: "alert" }, text));
  for (const text of facts.notes) $("warnings").append(el("p", { className: "warning note" }, text));
}

function startControls() {
  const colour = $("colour");
  const kinds = [["cluster", "cluster"], ...(facts.classes.length ? [["class", "class"]] : []), ["confidence", "confidence"], ["degree", "number of neighbours"], ...(facts.features.length ? [["feature", "a feature …"]] : [])];
  for (const [value, text] of kinds) colour.append(el("option", { value }, text));
  colour.addEventListener("change", () => {
    $("feature-field").hidden = colour.value !== "feature";
    if (colour.value === "feature") { $("feature").value = facts.features[0].name; colourBy(0); $("feature").focus(); }
    else colourBy(colour.value);
  });
  $("feature-list").append(...facts.features.slice(0, 3000).map((f) => el("option", { value: f.name })));
  $("feature").addEventListener("change", () => {
    const found = facts.features.findIndex((f) => f.name === $("feature").value);
    if (found >= 0) colourBy(found);
    else say(`There is no feature ${$("feature").value} on this page.`);
  });
  $("feature").addEventListener("focus", () => $("feature").select());
  $("whole").addEventListener("click", wholeMap);
  $("theme").addEventListener("click", () => setTheme(dark() ? "light" : "dark"));
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT/.test(event.target.tagName)) { event.preventDefault(); $("search").focus(); }
  });
  startSearch();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").setAttribute("aria-label", theme === "dark" ? "Light page" : "Dark page");
  if (!map.shownBy) return;
  const only = map.only;
  drawLegend();
  if (only >= 0) singleOut(only);
  paint(false);
}

function startSearch() {
  const box = $("search"), list = $("hits");
  let found = [], at = 0;
  const close = () => { list.hidden = true; box.setAttribute("aria-expanded", "false"); };
  const pick = (i) => { close(); box.value = idOf(i); selectNode(i, { move: true }); };
  const show = () => {
    list.replaceChildren(...found.map((i, k) => el("li", { role: "option", id: "hit" + k, "aria-selected": String(k === at), onmousedown: (event) => { event.preventDefault(); pick(i); } }, idOf(i))));
    if (!found.length && box.value) list.append(el("li", { role: "option", "aria-disabled": "true" }, "no node with this id on the map"));
    list.hidden = !box.value;
    box.setAttribute("aria-expanded", String(!list.hidden));
    box.setAttribute("aria-activedescendant", found.length ? "hit" + at : "");
  };
  box.addEventListener("input", () => { found = matches(box.value); at = 0; show(); });
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { at = (at + (event.key === "ArrowDown" ? 1 : found.length - 1)) % Math.max(1, found.length); show(); event.preventDefault(); }
    else if (event.key === "Enter" && found.length) pick(found[at]);
    else if (event.key === "Escape") { box.value = ""; close(); }
  });
}

function matches(text) {
  const wanted = text.trim().toLowerCase(), exact = placeOf(text.trim());
  if (!wanted) return [];
  const first = exact >= 0 ? [exact] : [], inside = [];
  for (let i = 0; i < facts.shown && first.length < 8; i++) {
    const id = idOf(i).toLowerCase();
    if (i === exact) continue;
    if (id.startsWith(wanted)) first.push(i);
    else if (inside.length < 8 && id.includes(wanted)) inside.push(i);
  }
  return [...first, ...inside].slice(0, 8);
}

function card(found, i) {
  const classes = found.classes.slice(0, 4).map(([name, share]) => `${name} ${percent(share)}`).join(", ");
  const most = Math.max(...found.marks.map((m) => Math.abs(m.lift)), 1e-9);
  const inClass = (name) => facts.classes.find((c) => c.name === name)?.colour || facts.unknown;
  const other = found.nearest === null ? -1 : facts.clusters.findIndex((c) => c.cluster === found.nearest);
  const lines = [
    el("div", { className: "top" }, swatch(found.colour), el("h3", {}, "Cluster " + found.cluster), el("span", { className: "size" }, `${found.size.toLocaleString("en")} nodes, ${percent(found.share)}`)),
    found.classes.length ? el("div", { className: "bar", role: "img", "aria-label": "classes: " + classes }, ...found.classes.map(([name, share]) => el("i", { style: { width: 100 * share + "%", background: inClass(name) }, title: `${name} ${percent(share)}` }))) : null,
    found.classes.length ? el("p", { className: "small" }, classes) : null,
    found.marks.length ? el("div", { className: "marks" }, ...found.marks.flatMap((m) => [el("span", {}, m.name), el("span", { className: "bar" }, el("i", { style: { width: (100 * Math.abs(m.lift)) / most + "%", background: found.colour } })), el("span", { className: "num", title: `inside ${number(m.inside)}, overall ${number(m.overall)}` }, m.number ? (m.lift > 0 ? "+" : "") + m.lift.toFixed(1) + " sd" : m.lift.toFixed(1) + "×")])) : null,
    el("p", { className: "small" }, `confidence ${found.confidence.toFixed(2)}` + (found.inner === null ? "" : `; ${percent(found.inner)} of its edge ends stay inside`)),
    other < 0 ? null : el("p", { className: "small" }, "nearest: ", el("button", { type: "button", className: "link", onclick: () => showCluster(other) }, "cluster " + found.nearest)),
    el("p", { className: "small" }, "typical: ", ...found.medoids.flatMap((id, at) => [at ? " · " : "", placeOf(id) >= 0 ? el("button", { type: "button", className: "link", onclick: () => { selectNode(placeOf(id), { move: true }); $("map-section").scrollIntoView(); } }, id) : el("span", {}, id)])),
    el("div", {}, el("button", { type: "button", onclick: () => showCluster(i) }, "Show on the map")),
  ];
  return el("article", { className: "card", style: { borderTopColor: found.colour } }, ...lines);
}

async function showCluster(i) {
  $("colour").value = "cluster";
  $("feature-field").hidden = true;
  await colourBy("cluster");
  singleOut(i);
  const own = [];
  for (let j = 0; j < facts.shown; j++) if (arrays.cluster[j] === i) own.push(j);
  if (map.plot && own.length) map.plot.zoomToPoints(own, { padding: 0.15, transition: !calm });
  $("map-section").scrollIntoView();
}

function showClusters() {
  const order = facts.clusters.map((_, i) => i).sort((a, b) => facts.clusters[b].size - facts.clusters[a].size);
  const marked = facts.clusters.some((c) => c.marks.length) ? " Features that mark a cluster: how much more often its nodes have them (×), or how far its mean lies from that of all nodes in standard deviations (sd)." : "";
  const lead = `${clusterCount()}${order.length > 1 ? ", largest first" : ""}: ${facts.clusters_from}.${marked}`;
  const cards = el("div", { id: "cards" }, ...order.slice(0, 60).map((i) => card(facts.clusters[i], i)));
  $("clusters").append(el("h2", {}, "Clusters"), el("p", { className: "lead" }, lead), cards);
  if (order.length > 60) $("clusters").append(el("button", { type: "button", style: { marginTop: "14px" }, onclick: (event) => { cards.append(...order.slice(60).map((i) => card(facts.clusters[i], i))); event.target.remove(); } }, `Show all ${order.length} clusters`));
}

function matrix(rowNames, columnNames, cells, caption, word) {
  const tight = columnNames.length > 16;
  const sums = cells.map((row) => row.reduce((a, b) => a + b, 0) || 1);
  const head = el("tr", {}, el("td"), ...columnNames.map((name) => el("th", { scope: "col", title: name }, tight ? name.replace(/^cluster /, "") : name)));
  const body = cells.map((row, i) => el("tr", {}, el("th", { scope: "row", title: rowNames[i] }, rowNames[i]), ...row.map((value, j) => {
    const share = value / sums[i];
    const text = `${rowNames[i]}, ${columnNames[j]}: ${value.toLocaleString("en")} ${word}, ${percent(share)} of the row`;
    return el("td", { title: text, style: { background: `rgba(var(--tint), ${(0.03 + 0.8 * share).toFixed(3)})` } }, tight ? el("span", { className: "unseen" }, value) : value ? value.toLocaleString("en") : "·");
  })));
  return el("div", { className: "panel", tabIndex: 0, role: "region", "aria-label": caption }, el("table", { className: tight ? "matrix tight" : "matrix" }, el("caption", { className: "small", style: { textAlign: "left", paddingBottom: "8px" } }, caption), head, ...body));
}

function showTables() {
  const names = (list) => list.map((c) => "cluster " + c);
  if (facts.matrix) {
    const left = facts.matrix.left_out ? ` The ${facts.matrix.left_out} smallest clusters are left out.` : "";
    const how = facts.directed ? "Edges from the cluster of the row to that of the column" : "Edges between two clusters; inside one, each edge once";
    $("edges").append(el("h2", {}, "Edges between clusters"), el("p", { className: "lead" }, `${how}; darker is a larger share of the row.${left}`), el("div", { className: "panels" }, matrix(names(facts.matrix.clusters), names(facts.matrix.clusters), facts.matrix.cells, "edges by cluster", "edges")));
  }
  if (facts.scores.length) {
    const about = { accuracy: "clusters matched to classes", NMI: "shared information", ARI: "pairs, against chance", "macro F1": "mean over classes", modularity: "edges inside, against chance", conductance: "edges that leave; less is better" };
    $("scores").append(el("h2", {}, "Scores"), el("p", { className: "lead" }, "Of the clusters, in percent." + (facts.confusion ? "" : " The graph has no labels: only its edges judge.")), el("div", { className: "tiles" }, ...facts.scores.map(([name, value]) => el("div", { className: "panel tile" }, el("span", { className: "small" }, name), el("b", {}, value.toFixed(1)), el("span", { className: "small" }, about[name] || "")))));
    if (facts.confusion) $("scores").append(el("div", { className: "panels" }, matrix(facts.confusion.classes, names(facts.confusion.clusters), facts.confusion.cells, "labelled nodes by class and cluster, each cluster under its best match", "nodes")));
  }
  if (facts.history) {
    const panel = el("div", { className: "panel", style: { display: "inline-block" } });
    panel.innerHTML = facts.history.svg; // numbers alone, made by tuplet
    $("training").append(el("h2", {}, "Training"), el("p", { className: "lead" }, facts.history.text), panel);
  }
  const listing = (rows) => el("div", { className: "panel" }, el("table", { className: "listing" }, ...rows.map(([name, text]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, text)))));
  $("run").append(el("h2", {}, "The run"), el("p", { className: "lead" }, "What made these vectors, so that they can be made again."), listing(facts.run));
  if (facts.settings.length) $("run").append(el("h3", { style: { margin: "18px 0 8px" } }, "Settings"), el("div", { className: "panel" }, el("dl", { className: "settings" }, ...facts.settings.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))))));
  if (facts.columns.length) $("run").append(el("h3", { style: { margin: "18px 0 8px" } }, "Columns and what became of them"), listing(facts.columns));
  if (facts.features_left_out) $("run").append(el("p", { className: "small", style: { marginTop: "10px" } }, `${facts.features.length.toLocaleString("en")} feature columns are on this page to colour by, the marking ones first; ${facts.features_left_out.toLocaleString("en")} more did not fit.`));
  $("foot").textContent = "Made by tuplet. This page loads nothing from the network.";
  for (const id of ["clusters", "edges", "scores", "training", "run"]) if ($(id).firstChild) $("sections").append(el("a", { href: "#" + id }, $(id).querySelector("h2").textContent));
}

(async () => {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  showHead();
  showNode(-1);
  await readArrays("first");
  startMap();
  await colourBy("cluster");
  performance.mark("map drawn");
  await readRest();
  listenToMap();
  startControls();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  setTimeout(() => { showClusters(); showTables(); document.documentElement.dataset.complete = "1"; }, 0);
})();

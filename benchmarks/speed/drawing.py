"""Libraries that could draw the report's map: bundle size, opening time and frames a second at 10^5 points.

    npm install plotly.js-dist-min @bokeh/bokehjs deck.gl          (in a folder of its own)
    python benchmarks/speed/drawing.py FOLDER/node_modules [--points 100000] [--frames 50]

One page a library, everything inline, opened from disk in headless Chromium (software GL where there is no GPU), a
canvas of 1000 x 800, the same points in ten colours. The view moves at each frame; a frame counts when the next one
is asked for, so that a library that falls behind is slowed by its own drawing. `usable` is the time from opening to
the second frame after the points were handed over. CPU seconds are those of all processes of the browser: they tell
more than the clock where others keep the machine busy.
"""

# ruff: noqa: E501  (JavaScript stands on its own lines)
from __future__ import annotations

import argparse
import base64
import gzip
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.browser import chromium, requests_made, wait_for

OURS = Path(__file__).parents[2] / "src/tuplet/pages/static/scatterplot.min.js"
COLOURS = [
    "#4477aa",
    "#ee6677",
    "#228833",
    "#ccbb44",
    "#66ccee",
    "#aa3377",
    "#777777",
    "#dd8800",
    "#004488",
    "#99bb55",
]

# Each library: its files, and JavaScript that draws x, y, z (group) into #plot and gives `move(t)`, t from 0 to 1.
LIBRARIES = {
    "regl-scatterplot": (
        [OURS],
        """const canvas = document.createElement("canvas"); plot.append(canvas);
        const p = regl_scatterplot.default({canvas, width: 1000, height: 800, pointSize: 2.2, opacity: 0.6, colorBy: "z", pointColor: COLOURS});
        await p.draw({x, y, z}, {zDataType: "categorical"});
        return (t) => p.set({cameraDistance: 1 + t});""",
    ),
    "deck.gl": (
        ["deck.gl/dist.min.js"],
        """const position = new Float32Array(3 * x.length), colour = new Uint8Array(4 * x.length);
        for (let i = 0; i < x.length; i++) { position.set([x[i], y[i], 0], 3 * i); colour.set([...RGB[z[i]], 150], 4 * i); }
        const data = {length: x.length, attributes: {getPosition: {value: position, size: 3}, getFillColor: {value: colour, size: 4}}};
        const layers = [new deck.ScatterplotLayer({id: "dots", data, getRadius: 1.1, radiusUnits: "pixels", pickable: true})];
        const view = (t) => ({target: [0, 0, 0], zoom: 8.6 - t});
        let d; await new Promise((done) => { d = new deck.Deck({parent: plot, width: 1000, height: 800, views: new deck.OrthographicView(), viewState: view(0), layers, onAfterRender: done}); });
        return (t) => d.setProps({viewState: view(t)});""",
    ),
    "Plotly": (
        ["plotly.js-dist-min/plotly.min.js"],
        """const marker = {size: 2.2, opacity: 0.6, color: Array.from(z, (g) => COLOURS[g])};
        await Plotly.newPlot(plot, [{type: "scattergl", mode: "markers", x, y, marker}], {width: 1000, height: 800, xaxis: {range: [-1, 1]}, yaxis: {range: [-1, 1]}});
        return (t) => Plotly.relayout(plot, {"xaxis.range": [-1 - t, 1 + t], "yaxis.range": [-1 - t, 1 + t]});""",
    ),
    "Bokeh": (
        ["@bokeh/bokehjs/build/js/bokeh.min.js", "@bokeh/bokehjs/build/js/bokeh-gl.min.js", "@bokeh/bokehjs/build/js/bokeh-api.min.js"],
        """const f = Bokeh.Plotting.figure({width: 1000, height: 800, x_range: [-1, 1], y_range: [-1, 1], output_backend: "webgl"});
        f.scatter(Array.from(x), Array.from(y), {size: 2.2, color: Array.from(z, (g) => COLOURS[g]), alpha: 0.6, line_color: null});
        await Bokeh.Plotting.show(f, plot);
        return (t) => { f.x_range.setv({start: -1 - t, end: 1 + t}); f.y_range.setv({start: -1 - t, end: 1 + t}); };""",
    ),
}  # fmt: skip

PAGE = """<!doctype html><meta charset="utf-8"><body style="margin:0"><div id="plot" style="width:1000px;height:800px;position:relative"></div>
{scripts}
<script>
const COLOURS = {colours}, RGB = COLOURS.map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
const bytes = Uint8Array.from(atob("{points}"), (c) => c.charCodeAt(0)), n = {n};
const x = new Float32Array(bytes.buffer, 0, n), y = new Float32Array(bytes.buffer, 4 * n, n), z = new Int32Array(bytes.buffer, 8 * n, n);
const plot = document.getElementById("plot"), frame = () => new Promise(requestAnimationFrame);
(async () => {{
  window.move = await (async () => {{ {draw} }})();
  await frame(); await frame();
  window.usable = performance.now();
}})().catch((error) => {{ window.failed = String(error.stack || error); }});
async function frames(count) {{
  const began = performance.now();
  for (let i = 0; i < count; i++) {{ await move((i % 50) / 50); await frame(); }}
  return count / ((performance.now() - began) / 1000);
}}
</script>"""


def page_of(name: str, modules: Path, n: int) -> tuple[str, int, int]:
    """The page, and the bytes of its library, plain and by gzip."""
    files, draw = LIBRARIES[name]
    texts = [(modules / file).read_text(encoding="utf-8") for file in files]
    rng = np.random.default_rng(0)
    group = rng.integers(10, size=n)
    places = (rng.normal(size=(n, 2)) / 8 + rng.normal(size=(10, 2))[group] / 3).clip(-1, 1).astype(np.float32)
    raw = places.T.tobytes() + group.astype(np.int32).tobytes()
    scripts = "\n".join(f"<script>{text.replace('</script', '<' + chr(92) + '/script')}</script>" for text in texts)
    page = PAGE.format(scripts=scripts, colours=COLOURS, points=base64.b64encode(raw).decode(), n=n, draw=draw)
    plain = "".join(texts).encode()
    return page, len(plain), len(gzip.compress(plain))


def cpu_seconds(driver: Any) -> float:
    """CPU time so far of the browser's processes."""
    service = psutil.Process(driver.service.process.pid)
    return float(sum(sum(child.cpu_times()[:2]) for child in service.children(recursive=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", type=Path)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--pictures", type=Path, help="Folder for a screenshot of each.")
    given = parser.parse_args()
    print("| library | kB | kB gzip | usable, s | CPU s | frames a second | CPU ms a frame | requests |")
    print("|---|---|---|---|---|---|---|---|")
    for name in LIBRARIES:
        with tempfile.TemporaryDirectory() as folder, chromium(Path(folder) / "profile") as driver:
            driver.set_script_timeout(300)
            text, plain, packed = page_of(name, given.modules, given.points)
            path = Path(folder) / "page.html"
            path.write_text(text, encoding="utf-8")
            driver.get("about:blank")
            before = cpu_seconds(driver)
            driver.get(path.as_uri())
            wait_for(driver, "window.usable || window.failed")
            failed = driver.execute_script("return window.failed")
            if failed:
                print(f"| {name} | failed: {failed} |")
                continue
            usable = driver.execute_script("return window.usable") / 1000
            opening = cpu_seconds(driver) - before
            if given.pictures:
                driver.save_screenshot(str(given.pictures / f"{name}.png"))
            before = cpu_seconds(driver)
            rate = driver.execute_async_script(f"frames({given.frames}).then(arguments[0])")
            spent = 1000 * (cpu_seconds(driver) - before) / given.frames
            asked = [url for url in requests_made(driver) if url.startswith("http")]
            size = f"{plain / 1e3:.0f} | {packed / 1e3:.0f}"
            print(
                f"| {name} | {size} | {usable:.1f} | {opening:.1f} | {rate:.1f} | {spent:.0f} | {len(asked)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

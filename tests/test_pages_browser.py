"""The report in a real browser: it opens, draws, answers mouse and keys, logs nothing and asks nobody.

With TUPLET_SCREENSHOTS=1 the pictures of the documentation are made again (docs/images/report-*.png).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.browser import chromium, requests_made, wait_for
from tuplet import load_dataset
from tuplet.graph.synth import block_model
from tuplet.models.selfdmat import SelfDMAT
from tuplet.pages import layout, report

SCRIPT = "<script>alert(1)</script>"
IMAGES = Path(__file__).parents[1] / "docs" / "images"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module")
def cora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cora by SelfDMAT, its first node named like a script."""
    graph = load_dataset("cora")
    ids = graph.node_ids.astype("U40")
    ids[0] = SCRIPT
    model = SelfDMAT(7, n_init=2).fit(graph.with_(y=None))
    named = graph.with_(ids=ids, label_names=tuple(name.replace("_", " ") for name in graph.label_names))
    return report(model, named, tmp_path_factory.mktemp("page") / "cora.html", title="Cora, without labels")


def opened(driver: Any, page: Path) -> float:
    """Open the page; milliseconds from there until its map is drawn and can be used."""
    driver.get(page.as_uri())
    ready = float(wait_for(driver, "document.documentElement.dataset.ready"))
    wait_for(driver, "document.documentElement.dataset.complete")
    return ready


def picture(driver: Any, name: str) -> None:
    if os.environ.get("TUPLET_SCREENSHOTS"):
        time.sleep(0.7)  # transitions
        path = IMAGES / f"report-{name}.png"
        driver.save_screenshot(str(path))
        with Image.open(path) as image:
            image.convert("RGB").save(path, optimize=True)  # fewer colours would no longer match the legend


def text_of(driver: Any, element: str) -> str:
    return str(driver.execute_script(f"return document.getElementById('{element}').innerText"))


def test_the_report_of_cora_answers_mouse_keys_and_search(browser: Any, cora: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    requests_made(browser)
    opened(browser, cora)
    plot = browser.find_element("id", "plot")
    assert wait_for(browser, "map.plot.get('isPointsDrawn')")
    picture(browser, "map")

    offset = tip_over(browser, 9)
    assert "confidence" in text_of(browser, "tip") and "class:" in text_of(browser, "tip")
    ActionChains(browser).move_to_element_with_offset(plot, *offset).click().perform()
    wait_for(browser, "map.selected >= 0")
    assert "NEAREST BY VECTOR" in text_of(browser, "node").upper()
    picture(browser, "node")

    search = browser.find_element("id", "search")
    search.send_keys("alert")
    wait_for(browser, "!document.getElementById('hits').hidden")
    assert text_of(browser, "hits").strip() == SCRIPT  # text, not a script
    search.send_keys(Keys.ENTER)
    wait_for(browser, "map.selected === 0")
    assert browser.find_element("css selector", "#node h2").text == SCRIPT
    first = browser.find_element("css selector", "#node ul.nodes button")
    first.send_keys(Keys.ENTER)  # from node to node by the keyboard
    wait_for(browser, "map.selected === arrays.near[0]")
    assert text_of(browser, "spoken")

    for kind in ("class", "confidence", "degree", "cluster"):
        browser.execute_script(f"$('colour').value = '{kind}'; $('colour').dispatchEvent(new Event('change'))")
        wait_for(browser, f"map.kind === '{kind}'")
    browser.execute_script("$('colour').value = 'feature'; $('colour').dispatchEvent(new Event('change'))")
    feature = browser.find_element("id", "feature")
    feature.send_keys("feature 507", Keys.ENTER)
    wait_for(browser, "map.shownBy.caption === 'feature 507'")
    assert browser.execute_script("return map.shownBy.values.filter((v) => v > 0).length") > 50

    plot.send_keys(Keys.ESCAPE)
    wait_for(browser, "map.selected === -1")
    before = browser.execute_script("return map.plot.get('cameraDistance')")
    plot.send_keys("0")
    plot.send_keys("+", Keys.ARROW_RIGHT, Keys.ENTER)
    wait_for(browser, "map.selected >= 0")
    wait_for(browser, f"map.plot.get('cameraDistance') !== {before}")  # the zoom is drawn when the page gets to it
    browser.execute_script(
        "setTheme('dark'); selectNode(-1); $('search').value = ''; $('feature-field').hidden = true;"
        "document.activeElement.blur(); $('colour').value = 'cluster'; colourBy('cluster'); wholeMap()"
    )
    picture(browser, "dark")
    browser.execute_script("setTheme('light'); $('clusters').scrollIntoView()")
    picture(browser, "clusters")
    browser.execute_script("$('edges').scrollIntoView()")
    picture(browser, "scores")

    assert browser.execute_script("return document.querySelectorAll('#cards article').length") == 7
    nameless = "!(e.innerText || e.getAttribute('aria-label'))"
    fields = f"[...document.querySelectorAll('button,select,input')].filter(e => {nameless}).length"
    assert browser.execute_script(f"return {fields}") == 0
    assert browser.get_log("browser") == []
    asked = [url for url in requests_made(browser) if not url.startswith(("chrome://", "data:", "blob:"))]
    assert asked == [cora.as_uri()]


def test_a_narrow_window_shows_the_whole_map_and_every_control_has_a_name(browser: Any, cora: Path) -> None:
    size = {"width": 400, "height": 800, "screenWidth": 400, "screenHeight": 800}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size | {"deviceScaleFactor": 1, "mobile": False})
    try:
        opened(browser, cora)
        assert browser.execute_script("return document.documentElement.scrollWidth") == 400
        outside = "(([x, y]) => x < 0 || y < 0 || x > $('plot').clientWidth || y > $('plot').clientHeight)"
        places = "[...map.x.keys()].map((i) => map.plot.getScreenPosition(i))"
        assert browser.execute_script(f"return {places}.filter({outside}).length") == 0
        tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    controls = [
        node for node in tree if node.get("role", {}).get("value") in ("button", "link", "combobox", "region")
    ]
    named = [node["name"]["value"].strip() for node in controls]
    assert len(named) > 50 and all(named)


def test_without_webgl_everything_but_the_map_works(cora: Path, tmp_path: Path) -> None:
    from selenium.webdriver import Keys

    with chromium(tmp_path, "--disable-3d-apis") as driver:
        opened(driver, cora)
        assert "no WebGL" in driver.find_element("id", "no-webgl").text
        driver.find_element("id", "search").send_keys("alert", Keys.ENTER)
        assert driver.find_element("css selector", "#node h2").text == SCRIPT
        assert text_of(driver, "spoken").startswith(SCRIPT)
        assert len(driver.find_elements("css selector", "#cards article")) == 7
        assert len(driver.find_elements("css selector", "#legend button")) == 7


def large_page(path: Path, monkeypatch: pytest.MonkeyPatch, n: int = 100_000) -> Path:
    """The report of 10^5 named nodes; the page, not the layout, is on trial, so that places are made up."""
    graph = block_model([n // 10] * 10, mean_degree=8, n_features=16, seed=0)
    graph = graph.with_(ids=np.array([f"node {i:05}" for i in range(n)]))
    rng = np.random.default_rng(0)
    near = (rng.integers(n, size=(n, 30)), np.full((n, 30), 0.5, np.float32))
    places = (rng.normal(size=(n, 2)) / 5 + rng.normal(size=(10, 2))[graph.y] / 3).clip(-1, 1).astype(np.float32)
    monkeypatch.setattr("tuplet.pages.gather.near_rows", lambda *_, **__: near)
    monkeypatch.setattr("tuplet.pages.gather.map_nodes", lambda *_, **__: places)
    monkeypatch.setattr(layout, "check_layout", lambda n: None)
    return report(np.asarray(graph.x), graph, path, clusters=graph.y)


def test_a_hundred_thousand_nodes_can_be_used_within_three_seconds(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = large_page(tmp_path / "large.html", monkeypatch)
    before = os.getloadavg()[0]
    opened(browser, page)
    # Milliseconds since the page was asked for, once its map and all that follows stand on the screen.
    frames = (
        "const done = arguments[0], frame = requestAnimationFrame; frame(() => frame(() => done(performance.now())))"
    )
    usable = float(browser.execute_async_script(frames)) / 1000
    size = page.stat().st_size / 1e6
    sys.stderr.write(f"10^5 nodes: {size:.1f} MB, usable {usable:.1f} s after opening, load {before:.1f}\n")
    tip_over(browser, 9)
    assert text_of(browser, "tip").startswith("node ")  # the one on top of the heap
    browser.execute_script("selectNode(77777)")
    assert browser.find_element("css selector", "#node h2").text == "node 77777"
    assert browser.get_log("browser") == []
    if usable >= 3 and before > 1:  # somebody else works too
        pytest.skip(f"others kept the machine busy (load {before:.1f}): usable after {usable:.1f} s, to be 3")
    assert usable < 3


def tip_over(driver: Any, node: int) -> tuple[int, int]:
    """Move the mouse over a node and wait for its tip; where it stands, from the middle of the plot."""
    from selenium.webdriver import ActionChains

    plot = driver.find_element("id", "plot")
    x, y = wait_for(driver, f"map.plot.getScreenPosition({node})")
    offset = (int(x - plot.size["width"] / 2), int(y - plot.size["height"] / 2))
    ActionChains(driver).move_to_element_with_offset(plot, *offset).perform()
    wait_for(driver, "!document.getElementById('tip').hidden")
    return offset

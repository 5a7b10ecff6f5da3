"""The built site (`make docs`): every link inside it leads somewhere; its search finds pages in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import chromium, wait_for

SITE = Path(__file__).parents[1] / "docs" / "_build" / "html"
pytestmark = pytest.mark.skipif(not (SITE / "searchindex.js").exists(), reason="no built site: make docs")


class Links(HTMLParser):
    """The addresses that a page refers to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.addresses.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def test_every_link_inside_the_site_leads_somewhere() -> None:
    pages = {path.resolve(): Links(path.read_text(encoding="utf-8")) for path in SITE.rglob("*.html")}
    broken = []
    for path, links in pages.items():
        for address in links.addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else None
            if not target.exists() or (anchors is not None and parts.fragment and parts.fragment not in anchors):
                broken.append(f"{path.relative_to(SITE)}: {address}")
    assert len(pages) > 50 and broken == []


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_search_finds_pages(address: str, tmp_path: Path) -> None:
    with chromium(tmp_path) as driver:
        for words, page in (
            ("report", "report.html"),
            ("fingerprint", "report.html"),
            ("GraphFilter", "GraphFilter"),
        ):
            driver.get(f"{address}/search.html?q={words}")
            # Results come one after the other.
            found = "[...document.querySelectorAll('#search-results li a')].map((a) => a.href)"
            assert wait_for(driver, f"{found}.some((one) => one.includes('{page}'))", 30.0)

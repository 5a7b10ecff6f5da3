"""A headless Chromium for tests: started on an empty profile, its console and its requests recorded."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync --disable-default-apps "
    "--disable-dev-shm-usage --hide-scrollbars --force-device-scale-factor=1 --window-size=1440,1000"
)


@contextmanager
def chromium(profile: Path, *more: str) -> Iterator[Any]:
    """A WebDriver of Chromium with `more` flags, or a skip that says what is missing."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium: pip install 'tuplet[dev]'")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in [*FLAGS.split(), *more, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(driver, env={**os.environ, "HOME": str(profile)})
    started = webdriver.Chrome(options=options, service=service)
    try:
        yield started
    finally:
        started.quit()


def wait_for(driver: Any, script: str, seconds: float = 120.0) -> Any:
    """The first truthy value of the JavaScript expression `script`."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, seconds, 0.05).until(lambda d: d.execute_script(f"return {script}"))


def requests_made(driver: Any) -> list[str]:
    """Every address that the page asked for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

"""A real browser for pages, and what tests and screenshots ask of it."""

import json
import shutil
import time
from contextlib import contextmanager

import pytest

NO_BROWSER = "NO BROWSER, THE PAGE IS UNTESTED: apt-get install chromium chromium-driver"
NO_SELENIUM = "NO SELENIUM, THE PAGE IS UNTESTED: pip install selenium"
TALL = 844  # pixels of a window


def opened(profile):
    """A headless Chromium while the generator is open; the test is skipped where there is none."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip(NO_BROWSER)
    pytest.importorskip("selenium.webdriver", reason=NO_SELENIUM)
    with chromium(profile) as browser:
        yield browser


@contextmanager
def chromium(profile):
    """A headless Chromium with a profile of its own, which logs its console and its requests."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for flag in [
        "headless=new",
        "no-sandbox",  # which root needs
        "disable-gpu",
        "disable-dev-shm-usage",  # containers have little of it
        "disable-quic",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "no-first-run",
        f"user-data-dir={profile}",
    ]:
        options.add_argument(f"--{flag}")
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        browser.set_page_load_timeout(30)
        browser.set_script_timeout(30)
        yield browser
    finally:
        browser.quit()


def screen(browser, width, height=TALL, scale=1):
    size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def scheme(browser, value):
    features = [{"name": "prefers-color-scheme", "value": value}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def all_of(page, selector):
    return page.find_elements("css selector", selector)


def texts(page, selector):
    return [found.text for found in all_of(page, selector)]


def console(browser):
    """What the console was told since it was last asked."""
    return [entry["message"] for entry in browser.get_log("browser")]


def requests(browser):
    """The addresses that were asked for since they were last asked, whoever was to answer."""
    events = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    sent = (event for event in events if event["method"] == "Network.requestWillBeSent")
    urls = (event["params"]["request"]["url"] for event in sent)
    return [url for url in urls if not url.startswith(("data:", "blob:"))]


def until(true, message="it did not happen", seconds=40.0):
    """What is true at last; a machine that does much else is waited for."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, message() if callable(message) else message
        time.sleep(0.02)
    return found

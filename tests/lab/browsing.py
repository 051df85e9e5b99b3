"""A real browser for the report pages, and what tests ask of it."""

import shutil

import pytest


def opened(profile):
    """A headless Chromium while the generator is open; the test is skipped where there is none."""
    chromium = shutil.which("chromium")
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("NO BROWSER, THE PAGE IS UNTESTED: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="NO SELENIUM, THE PAGE IS UNTESTED: pip install selenium"
    )
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
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
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        browser.set_page_load_timeout(30)
        browser.set_script_timeout(10)
        yield browser
    finally:
        browser.quit()


def screen(browser, width):
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def scheme(browser, value):
    features = [{"name": "prefers-color-scheme", "value": value}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def all_of(page, selector):
    return page.find_elements("css selector", selector)


def texts(page, selector):
    return [found.text for found in all_of(page, selector)]

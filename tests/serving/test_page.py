"""The search page in a real browser."""

import shutil
import time

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: [test]")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="needs Chromium and its driver: apt-get install chromium chromium-driver",
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1280,900"),
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, server):
    """The page, just opened; at the end nothing has gone wrong in its console."""
    browser.get("about:blank")
    browser.get(server.url)
    page = Page(browser)
    page.wait(lambda: page.text("#run"))
    yield page
    assert [entry["message"] for entry in browser.get_log("browser")] == []


class Page:
    def __init__(self, browser):
        self.browser = browser

    def find(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return " ".join(element.text for element in self.find(selector))

    def wait(self, condition):
        return WebDriverWait(self.browser, 30, 0.05, [Exception]).until(lambda _: condition())

    def focused(self):
        return self.browser.switch_to.active_element

    def ask(self, text):
        self.find("#q")[0].send_keys(text)
        self.wait(lambda: "scored" in self.text("#status") and self.find("#results li"))

    def top(self, title):
        self.wait(lambda: title in self.find("#results li .title")[0].text)


def test_results_come_as_you_type(page):
    assert "40 labels" in page.text("#run")
    page.ask("topic3 topic4")
    page.wait(lambda: {"about topic3", "about topic4"} == {*titles(page)[:2]})
    assert len(page.find("#results li")) == 10
    assert len(page.find("#results li:first-child .bars i")) == 3  # one for each chunk
    assert "ms" in page.text("#status")
    page.find("#q")[0].send_keys(Keys.CONTROL, "a")
    page.find("#q")[0].send_keys("topic7")
    page.top("about topic7")
    assert "q=topic7" in page.browser.current_url


def titles(page):
    return [element.text for element in page.find("#results .title")]


def test_an_answer_that_comes_late_is_not_shown(page):
    """The first request is held back until the second is answered."""
    page.browser.execute_script(
        "const real = window.fetch; let first = true;"
        "window.fetch = (address, options) => {"
        "  const answer = real(address);"  # without the signal: it cannot be aborted
        "  if (!first || !String(address).includes('search')) return answer;"
        "  first = false;"
        "  const later = (done) => { window.late = true; done(answer); };"
        "  return new Promise((done) => setTimeout(later, 700, done));"
        "};"
    )
    page.find("#q")[0].send_keys("topic3")
    time.sleep(0.2)  # over the debounce: the request is under way
    page.find("#q")[0].send_keys(Keys.BACKSPACE + "8")
    page.top("about topic8")
    page.wait(lambda: page.browser.execute_script("return window.late"))
    time.sleep(0.2)
    assert page.find("#results li .title")[0].text == "about topic8"


def test_the_keyboard_is_enough(page):
    page.ask("topic3 topic4")
    page.find("#q")[0].send_keys(Keys.ARROW_DOWN)
    page.focused().send_keys(Keys.ARROW_DOWN)
    second = page.find("#results li")[1]
    assert "selected" in second.get_attribute("class")
    assert page.focused() == second.find_element(By.CSS_SELECTOR, ".row")
    title = second.find_element(By.CSS_SELECTOR, ".title").text
    page.focused().send_keys("n")
    page.wait(lambda: title in page.text("#crumb"))
    assert title not in titles(page)
    page.focused().send_keys(Keys.ESCAPE)
    page.wait(lambda: not page.find("#crumb")[0].is_displayed())
    assert page.focused().get_attribute("id") == "q"
    page.find("#results .row")[0].send_keys("/")
    assert page.focused().get_attribute("id") == "q"
    page.focused().send_keys(Keys.ESCAPE)
    page.wait(lambda: not page.find("#results li"))


def test_neighbours_by_click_and_back_by_the_browser(page):
    page.ask("topic5")
    page.top("about topic5")
    page.find("#results li .more")[0].click()
    page.wait(lambda: "Neighbours of about topic5" in page.text("#crumb"))
    page.browser.back()
    page.top("about topic5")
    assert not page.find("#crumb")[0].is_displayed()


def choose(page, setting):
    name, value = setting.split("=")
    selector = f"[name={name}][value={value}]"
    page.browser.execute_script(f"document.querySelector('{selector}').click()")
    page.wait(lambda: setting in page.browser.current_url)


def test_switches_change_the_search(page):
    page.ask("topic3 topic4")
    choose(page, "m=full")
    page.wait(lambda: "40 labels scored" in page.text("#status"))
    choose(page, "score=probability")
    page.wait(lambda: float(page.find("#results .score")[0].text) <= 3)  # K probabilities


def test_labels_are_filtered_by_keyboard_and_the_address_keeps_it(page):
    page.ask("topic3 topic4")
    page.find("#results .row")[0].send_keys("f")
    page.wait(lambda: page.find("#filters")[0].get_attribute("open") is not None)
    assert page.focused().get_attribute("name") == "is.kind"
    page.focused().send_keys("odd")  # as one chooses in a list
    page.wait(lambda: "Filter odd one" in page.text("#filters summary"))
    page.wait(lambda: {facts.text for facts in page.find(".facts span:first-child")} == {"odd one"})
    assert titles(page)[0] == "about topic3" and "filter" in page.text("#how")
    page.find("[name='to.number']")[0].send_keys("5" + Keys.ENTER)
    page.wait(lambda: {*titles(page)} == {"about topic1", "about topic3", "about topic5"})
    page.browser.refresh()
    page.wait(lambda: {*titles(page)} == {"about topic1", "about topic3", "about topic5"})
    assert "number ≤ 5" in page.text("#filters summary")
    page.find("#filters summary")[0].click()
    page.find("[name='is.kind']")[0].send_keys(Keys.ESCAPE)
    assert page.focused().get_attribute("id") == "q"
    assert page.find("#filters")[0].get_attribute("open") is None
    page.find("#filters summary")[0].click()
    page.find(".clear")[0].click()
    page.wait(lambda: len(page.find("#results li")) == 10)
    assert "kind" not in page.browser.current_url


def test_a_filter_that_nothing_meets_is_told(page):
    page.browser.get(f"{page.browser.current_url}?q=topic3&from.number=100")
    page.wait(lambda: "Widen it" in page.text("#start"))
    page.browser.get(f"{page.browser.current_url}&is.kind=none")
    page.wait(lambda: "no label has the kind 'none'" in page.text("[role=alert]"))
    page.browser.get_log("browser")  # where the browser has noted the 422


def test_the_explanation_has_the_numbers_of_the_query(page, server):
    page.ask("topic3 xyzzy")
    page.wait(lambda: page.find("#how tbody tr"))
    (answer,) = server.get("/search", q="topic3 xyzzy", explain=True).json()["answers"]
    best = answer["labels"][0]
    text = page.text("#how")
    assert f"{best['score']:.2f}" in text
    places = [chunk["bucket"] + 24 * k for k, chunk in enumerate(best["chunks"])]
    assert page.text(".ones") == " · ".join(map(str, places))
    assert len(page.find("#how tbody tr")) == 3
    assert "xyzzy" in page.text(".words .unknown")


def test_unknown_words_and_errors_are_told(page):
    page.find("#q")[0].send_keys("xyzzy")
    page.wait(lambda: "vocabulary" in page.text("#start"))
    page.browser.execute_script("document.getElementById('q').value = 'a '.repeat(700) + 'b'")
    page.find("#q")[0].send_keys("c")
    page.wait(lambda: "1000" in page.text("[role=alert]"))
    page.browser.get_log("browser")  # where the browser has noted the 422


def test_it_fits_a_phone(page):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.ask("topic3 topic4")
        page.wait(lambda: page.find("#how tbody tr"))
        page.find("#filters summary")[0].click()
        wide = page.browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= 390
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_api_has_a_page_of_its_own(page, server):
    page.browser.get(f"{server.url}docs")
    page.wait(lambda: "/labels/{label}/neighbours" in page.text("#docs"))
    assert len(page.find("#docs details")) > 10

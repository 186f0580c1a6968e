"""A headless Chromium that can reach only this machine, for tests of the page and for the pictures in the documents."""

import contextlib
import json
import shutil

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
kFlags = [
    "--headless=new",
    "--no-sandbox",  # needed because CI runs as root
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--window-size=1000,700",
]
# Adds a mouse, so that `hover: hover` matches. A headless browser has none.
kMouse = "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"
# Records the bodies of requests in `sent`, and adds the fields of `more` to them.
kWatch = """
window.sent = [];
window.more = {};
const ask = window.fetch;
window.fetch = (address, options) => {
  if (!options?.body) return ask(address, options);
  window.sent.push(JSON.parse(options.body));
  return ask(address, {...options, body: JSON.stringify({...window.sent.at(-1), ...window.more})});
};
"""


class Page:
    def __init__(self, driver):
        self.driver = driver
        self.watch = None

    def command(self, name, **parameters):
        return self.driver.execute_cdp_cmd(name, parameters)

    def go(self, address):
        if self.watch is None:
            self.watch = self.command("Page.addScriptToEvaluateOnNewDocument", source=kWatch)
        self.driver.get(address)

    def forget(self, origin):
        """Clears everything that the browser has stored for this origin."""
        self.command("Storage.clearDataForOrigin", origin=origin, storageTypes="all")

    def js(self, script, *arguments):
        return self.driver.execute_script("return " + script, *arguments)

    def wait(self, script, *arguments):
        """Waits until the expression is true, and returns its value."""
        try:
            return WebDriverWait(self.driver, 60, poll_frequency=0.05).until(lambda _: self.js(script, *arguments))
        except Exception as error:
            raise AssertionError(f"never true: {script}; the page says: {self.js('document.body.innerText')}") from error

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.find(selector).text

    def click(self, selector):
        self.find(selector).click()

    def type(self, selector, text):
        self.find(selector).send_keys(text)

    def press(self, *keys):
        chain = webdriver.ActionChains(self.driver)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in keys[:-1]:
            chain.key_up(key)
        chain.perform()

    def fill(self, selector, text):
        """Sets the text of a field at once, with one event; typing takes time per key."""
        set_text = "((field, text) => { field.value = text; field.dispatchEvent(new Event('input', {bubbles: true})); })"
        self.js(set_text + "(document.querySelector(arguments[0]), arguments[1])", selector, text)

    def exchange(self, selector):
        """Presses a button below "Export and import"."""
        self.js("document.getElementById('exchange').open = true")
        self.click(selector)

    def settings(self, **values):
        """Sets fields of the settings through their dialog."""
        self.click("#open-settings")
        for name, value in values.items():
            field = self.find(f"#{name}")
            if field.tag_name == "select":
                field.send_keys(value)
            else:
                self.fill(f"#{name}", value)
        self.click("#save-settings")

    def ask(self, text, num_answers=None):
        """Sends a message and waits for the end of its answer."""
        num_turns = self.js("document.querySelectorAll('.turn').length")
        self.type("#input", text + Keys.ENTER)
        self.wait("document.querySelectorAll('.turn').length > arguments[0]", num_turns)
        self.wait_for_end()

    def wait_for_end(self):
        self.wait("!document.querySelector('[aria-busy=true]')")

    def last(self, selector):
        """Returns the text of this part of the last answer."""
        return self.js("[...document.querySelectorAll('.turn.assistant')].at(-1).querySelector(arguments[0]).innerText", selector)

    def console_errors(self):
        """Returns the warnings and errors of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]

    def requests(self):
        """Returns the addresses that the page has requested since the last call, without those that its content policy
        blocked."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = {}
        for event in events:
            told = event["params"]
            if event["method"] == "Network.requestWillBeSent":
                asked[told["requestId"]] = told["request"]["url"]
            elif event["method"] == "Network.loadingFailed" and told.get("blockedReason") == "csp":
                del asked[told["requestId"]]
        return list(asked.values())


@contextlib.contextmanager
def chromium(preferences=None, flags=()):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*kFlags, *flags]:
        options.add_argument(flag)
    if preferences:
        options.add_experimental_option("prefs", preferences)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        driver.set_script_timeout(60)
        yield Page(driver)
    finally:
        driver.quit()

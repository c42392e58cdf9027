#!/usr/bin/env python3
"""site_test.py SOURCE: builds the manual without a network, checks its links and its navigation, and opens it in Chromium:
pages load without errors, the search finds pages, and menus lead to them, from a server and as files. Skipped without MkDocs
Material; without Chromium and Selenium only the first half runs.

With DDP_SCREENSHOTS=DIR pictures of some pages are written there.
"""
import functools
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

from links_test import broken_links

SOURCE = pathlib.Path(sys.argv[1]).resolve()
PATIENCE = 60


def build(site: pathlib.Path) -> None:
    words = ["mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    done = subprocess.run(words, cwd=SOURCE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def every_page_is_in_the_menus() -> None:
    menus = (SOURCE / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [path.relative_to(SOURCE / "docs").as_posix() for path in (SOURCE / "docs").rglob("*.md")]
    # Records of decisions are listed by their index.
    missing = [page for page in pages if f" {page}\n" not in menus and "decisions/0" not in page]
    assert not missing, f"mkdocs.yml has no menu entry for {missing}"


def generated_pages_are_current() -> None:
    index = (SOURCE / "docs/development/decisions/index.md").read_text(encoding="utf-8")
    records = sorted(path.name for path in (SOURCE / "docs/development/decisions").glob("0*.md"))
    missing = [name for name in records if f"({name})" not in index]
    assert not missing, f"the index of decisions lacks {missing}: run scripts/docs decisions"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Reader:
    """Acts as a user with Chromium."""

    def __init__(self, site: pathlib.Path):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        handler = functools.partial(Quiet, directory=str(site))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        self.files = site.as_uri() + "/"
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000"):
            options.add_argument(word)
        options.binary_location = shutil.which("chromium")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.browser.set_page_load_timeout(PATIENCE)

    def close(self) -> None:
        self.browser.quit()
        self.server.shutdown()

    def open(self, page: str, address: str = "") -> None:
        self.browser.get((address or self.address) + page)
        errors = [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert not errors, (page, errors)

    def find(self, selector: str):
        """Returns the first visible element, as soon as there is one."""
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.ui import WebDriverWait

        def visible(browser):
            return next((each for each in browser.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()), None)
        return WebDriverWait(self.browser, PATIENCE).until(visible, f"nothing visible matches {selector}")

    def wait_for_title(self, words: str) -> None:
        from selenium.webdriver.support.ui import WebDriverWait
        WebDriverWait(self.browser, PATIENCE).until(lambda browser: words in browser.title, f"no title with {words!r}")

    def picture(self, name: str) -> None:
        folder = os.environ.get("DDP_SCREENSHOTS")
        if folder:
            self.browser.save_screenshot(str(pathlib.Path(folder, name + ".png")))


def search(reader: Reader, words: str) -> list[str]:
    """Returns the addresses that the search finds. Each of them contains the words, as soon as all are typed."""
    from selenium.webdriver.support.ui import WebDriverWait

    def found(browser):
        links = browser.execute_script("return [...document.querySelectorAll('.md-search-result__item > a')].map(a => a.href)")
        return links if links and all(f"h={urllib.parse.quote_plus(words)}" in link for link in links) else None
    reader.find("input.md-search__input").send_keys(words)
    return WebDriverWait(reader.browser, PATIENCE).until(found, f"nothing is found for {words}")


def search_leads_to_a_page(reader: Reader) -> None:
    reader.open("index.html")
    reader.picture("front")
    search(reader, "hang-timeout")
    reader.picture("search")
    reader.find(".md-search-result__item a").click()
    from selenium.webdriver.support.ui import WebDriverWait
    WebDriverWait(reader.browser, PATIENCE).until(lambda browser: "index.html" not in browser.current_url.split("?")[0])
    assert "hang" in reader.browser.page_source.lower()


def search_finds_pages_for_users(reader: Reader) -> None:
    for address in (reader.address, reader.files):
        for words, page in (("显存", "zh-CN/common-mistakes"), ("wandb", "how-to/experiment-trackers"), ("kill", "tutorials/"), ("who sent SIGKILL", "how-to/")):
            reader.open("index.html", address)
            found = search(reader, words)
            assert found[0].startswith(address + page), (words, found)
            assert not any("/development/" in link for link in found), (words, found)


def the_theme_is_that_of_the_system(reader: Reader) -> None:
    for system, scheme in (("dark", "slate"), ("light", "default")):
        media = {"features": [{"name": "prefers-color-scheme", "value": system}]}
        reader.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        reader.browser.execute_script("localStorage.clear()")
        reader.open("index.html")
        reader.find(f"body[data-md-color-scheme={scheme}]")


def menus_lead_to_pages(reader: Reader) -> None:
    reader.open("index.html")
    for tab, title in (("How-to guides", "Install"), ("Reference", "Command line"), ("Tutorials", "PyTorch")):
        link = next(each for each in reader.browser.find_elements("css selector", ".md-tabs__link") if each.text == tab)
        link.click()
        reader.wait_for_title(title)


def pages_are_readable(reader: Reader) -> None:
    for page, name in (("how-to/slurm.html", "how-to"), ("explanation/performance.html", "performance")):
        reader.open(page)
        reader.picture(name)
        width = reader.browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        assert width <= 0, f"{page} is {width} pixels wider than the window"
        broken = reader.browser.execute_script(
            "return [...document.images].filter(i => !i.complete || i.naturalWidth == 0).map(i => i.src)")
        assert not broken, f"{page}: pictures that do not load: {broken}"


def an_anchor_of_a_diagnosis_is_there(reader: Reader) -> None:
    reader.open("reference/diagnoses.html#h03")
    assert "H03" in reader.find("#h03").text


def main() -> int:
    if shutil.which("mkdocs") is None:
        print("not installed: mkdocs-material")
        return 77
    every_page_is_in_the_menus()
    generated_pages_are_current()
    with tempfile.TemporaryDirectory() as folder:
        site = pathlib.Path(folder) / "site"
        build(site)
        broken = broken_links(site)
        assert not broken, "\n".join(broken)
        print("the manual is built, and all links lead somewhere")
        if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
            print("not installed: chromium, chromium-driver")
            return 0
        os.environ["HOME"] = folder
        from selenium.common.exceptions import SessionNotCreatedException
        try:
            reader = Reader(site)
        except SessionNotCreatedException as error:
            print(f"Chromium does not start here, so the pages were not opened: {error.msg}")
            return 0
        try:
            for check in (search_leads_to_a_page, search_finds_pages_for_users, menus_lead_to_pages, pages_are_readable,
                          an_anchor_of_a_diagnosis_is_there, the_theme_is_that_of_the_system):
                check(reader)
                print("ok:", check.__name__.replace("_", " "))
        finally:
            reader.close()
    return 0


if __name__ == "__main__":
    # Debian's Selenium belongs to Debian's Python.
    if os.path.realpath(sys.executable) != os.path.realpath("/usr/bin/python3") and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    sys.exit(main())

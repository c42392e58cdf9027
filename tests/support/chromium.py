"""Drives Chromium over a pipe, with the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/)."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = 90.0  # seconds for operations that take milliseconds on an idle computer


def find_chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page:
    """Shows one page in a browser without a window. The browser has no network, so a page that needs one fails."""

    def __init__(self, path: pathlib.Path, dark: bool = False, scripts: bool = True, width: int = 1280, height: int = 900):
        self.folder = tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True)
        to_browser, self.input = os.pipe()
        self.output, from_browser = os.pipe()
        words = [find_chromium(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
                 "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", f"--user-data-dir={self.folder.name}",
                 "--proxy-server=127.0.0.1:9", f"--window-size={width},{height}", "about:blank"]
        # The protocol uses the descriptors 3 and 4.
        script = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        self.process = subprocess.Popen(["bash", "-c", script, "_", *words], pass_fds=(to_browser, from_browser),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.rest = b""
        self.number = 0
        self.session = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.events: list[str] = []
        self.width, self.height = width, height
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_: object) -> None:
        # The browser ends when the pipe is closed, and its other processes with it.
        os.close(self.input)
        os.close(self.output)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def read(self) -> dict:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.rest:
            assert select.select([self.output], [], [], max(end - time.monotonic(), 0))[0], "Chromium does not answer"
            piece = os.read(self.output, 1 << 20)
            assert piece, f"Chromium has exited with {self.process.wait()}"
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def note(self, message: dict) -> None:
        """Collects what the console of the browser shows, and what the page loads."""
        method, details = message.get("method", ""), message.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(details))
        if method == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning"):
            self.errors.append(json.dumps(details))
        if method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.errors.append(json.dumps(details["entry"]))
        if method == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])

    def call(self, method: str, **parameters: object) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.input, data):]
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.note(answer)

    def wait_for(self, method: str) -> None:
        while method not in self.events:
            self.note(self.read())

    def run(self, script: str) -> object:
        """Returns the value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (script, result)
        return result["result"].get("value")

    def wait_until(self, script: str) -> None:
        """Waits until a JavaScript expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < end, f"it does not become true: {script}"
            time.sleep(0.01)

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''"))

    def click(self, selector: str) -> None:
        """Clicks with the mouse, so an element that another one covers is not clicked."""
        place = self.run(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: 'center', behavior: 'instant'}});
            const box = element.getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];
        }})()""")
        self.mouse("mousePressed", *place)
        self.mouse("mouseReleased", *place)

    def mouse(self, kind: str, x: float, y: float, button: str = "left") -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1,
                  buttons=0 if kind == "mouseReleased" else 1 if button == "left" else 0)

    def dom(self) -> str:
        root = self.call("DOM.getDocument", depth=-1)["root"]["nodeId"]
        return self.call("DOM.getOuterHTML", nodeId=root)["outerHTML"]

    def screenshot(self, file: pathlib.Path, whole: bool = True) -> None:
        words: dict[str, object] = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            words["clip"] = {"x": 0, "y": 0, "width": self.width, "height": min(size["height"], 12000), "scale": 1}
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **words)["data"]))

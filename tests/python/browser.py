"""Drives a headless Chromium with its DevTools protocol (https://chromedevtools.github.io/devtools-protocol) over a
pair of pipes. Messages are JSON, and each ends with a zero byte. Needs only Python's standard library. Has no
timeouts, since ctest limits the time of a test."""
import json
import os
import shutil
import subprocess
import tempfile


def find_chromium():
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next(filter(None, map(shutil.which, names)), None)


class Browser:
    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory()
        read_end, self.commands = os.pipe()
        self.answers, write_end = os.pipe()

        def pipes():  # Chromium reads commands from descriptor 3 and writes answers to descriptor 4
            ends = [os.dup(read_end), os.dup(write_end)]  # copies, since dup2() could overwrite an end
            for end, number in zip((os.dup2(ends[0], 13), os.dup2(ends[1], 14)), (3, 4)):
                os.dup2(end, number)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars",
             f"--user-data-dir={self.profile.name}"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_end)
        os.close(write_end)
        self.unread, self.number, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.commands)  # Chromium exits when its command pipe is closed
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.answers)
        self.profile.cleanup()

    def receive(self):
        while b"\0" not in self.unread:
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self.unread += part
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, path, width=1280, dark=False):
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                  mobile=width < 600)
        self.prefer("dark" if dark else "light")
        self.call("Page.navigate", url=f"file://{path}")
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())
        self.settle()

    def prefer(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.settle()

    def settle(self):
        """Waits until the page has been drawn and has handled its events."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def evaluate(self, expression):
        """Returns the value of a JavaScript expression. If it is a promise, waits and returns the promise's result."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']['exception']['description']}")
        return result["result"].get("value")

    def mouse(self, kind, x, y, button="left"):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1, pointerType="mouse",
                  buttons=0 if kind == "mouseReleased" else 1)

    def place(self, selector, index=0):
        """Returns (left, top, width, height) of an element, after scrolling it into view."""
        return self.evaluate(f"(e => {{ e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();"
                             f" return [r.left, r.top, r.width, r.height]; }})"
                             f"(document.querySelectorAll({json.dumps(selector)})[{index}])")

    def click(self, selector, index=0):
        left, top, width, height = self.place(selector, index)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, left + width / 2, top + height / 2)

    def drag(self, selector, begin, end, index=0):
        """Drags the mouse across the middle of an element, between two fractions of its width."""
        left, top, width, height = self.place(selector, index)
        y = top + height / 2
        self.mouse("mousePressed", left + begin * width, y)
        self.mouse("mouseMoved", left + end * width, y)
        self.mouse("mouseReleased", left + end * width, y)

    def complaints(self):
        """Returns the page's errors, warnings and exceptions since it was opened."""
        self.evaluate("0")  # this call reads all events that arrive before its answer
        texts = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                texts.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
                texts.append(str(parameters["args"]))
            elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                texts.append(parameters["entry"]["text"])
        return texts

    def requests(self):
        """Returns the URLs that the page has requested since it was opened."""
        self.evaluate("0")
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

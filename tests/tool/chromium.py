"""A page in headless Chromium, driven by the browser's own input events, over its pipe for debuggers (no library)."""
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


LONGEST = 60  # seconds without a word from the browser


class Chromium:
    def __init__(self, width=1000, height=700, touch=False):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # its children may still write there
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        # The browser's ends are its descriptors 3 and 4.
        script = f"exec 3<&{to_read} 4>&{to_write}; exec \"$@\""
        sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", PROGRAM, "--headless", *sandbox, "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}", "about:blank"],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self.rest, self.last, self.session, self.loaded = b"", 0, None, False
        try:
            self.attach(width, height, touch)
        except BaseException:
            self.close()
            raise

    def attach(self, width, height, touch):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)

    def message(self):
        while b"\0" not in self.rest:
            if not select.select([self.from_browser], [], [], LONGEST)[0]:
                raise RuntimeError(f"the browser has said nothing for {LONGEST} s")
            more = os.read(self.from_browser, 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **parameters):
        self.last += 1
        request = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(request).encode() + b"\0")
        while True:
            got = self.message()
            self.loaded |= got.get("method") == "Page.loadEventFired"
            if got.get("id") == self.last:
                if "error" in got:
                    raise RuntimeError(got["error"])
                return got["result"]

    def open(self, path):
        """The page is loaded, and painted once."""
        self.loaded = False
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while not self.loaded:
            self.loaded = self.message().get("method") == "Page.loadEventFired"
        self.paint()

    def paint(self):
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script):
        got = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError(got["exceptionDetails"])
        return got["result"].get("value")

    def key(self, key, code=0, text=""):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def tap(self, x, y):
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def click(self, x, y, modifiers=0):
        """`modifiers`: 8 is Shift."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1, modifiers=modifiers)

    def wheel(self, x, y, delta):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # its children too
        except ProcessLookupError:  # they have ended
            pass
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.folder.cleanup()

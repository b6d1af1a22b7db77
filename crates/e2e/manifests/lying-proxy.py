"""A proxy before Patroni's REST API that can lie, for tests.

What it does is written in /tmp/proxy-mode: `honest` (or nothing) passes everything on, `silent` never
answers, `refusing` closes the connection, `leading` says of this member that it leads, holds the lock
and is at a later timeline, whatever Patroni says.
"""
import http.client
import http.server
import json
import os
import signal
import time

OWN = ("127.0.0.1", 8008)


def mode():
    try:
        with open("/tmp/proxy-mode") as file:
            return file.read().strip()
    except OSError:
        return "honest"


def leading(path, status, body):
    """What a member says that wrongly thinks it leads."""
    name = os.environ.get("ENSEMBLE_MEMBER", "")
    if path.startswith(("/patroni", "/health")) or path == "/":
        said = json.loads(body)
        said.update(role="master", state="running", timeline=int(said.get("timeline", 1)) + 1)
        said.pop("cluster_unlocked", None)
        said.setdefault("replication", [])
        return 200, json.dumps(said).encode()
    if path.startswith("/cluster"):
        said = json.loads(body)
        for one in said.get("members", []):
            if one.get("name") == name:
                one.update(role="leader", state="running")
            elif one.get("role") == "leader":
                one["role"] = "replica"
        return 200, json.dumps(said).encode()
    if path.startswith(("/primary", "/leader", "/master", "/read-write")):
        return 200, b""
    if path.startswith(("/replica", "/sync", "/async")):
        return 503, b""
    return status, body


class Proxy(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def pass_on(self):
        now = mode()
        if now == "silent":
            time.sleep(3600)
        if now in ("silent", "refusing"):
            self.close_connection = True
            return
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        try:
            own = http.client.HTTPConnection(*OWN, timeout=60)
            own.request(self.command, self.path, body, dict(self.headers))
            answer = own.getresponse()
            status, said = answer.status, answer.read()
        except OSError:
            self.close_connection = True
            return
        if now == "leading" and self.command == "GET":
            status, said = leading(self.path, status, said)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_OPTIONS = do_HEAD = pass_on


# The first process of a container ignores what it does not ask for.
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
http.server.ThreadingHTTPServer(("0.0.0.0", 8018), Proxy).serve_forever()

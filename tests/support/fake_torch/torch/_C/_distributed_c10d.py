"""Implements the recorders and their server. PyTorch's server is in C++ and answers while the program holds the
interpreter; this one does not."""
import http.server
import json
import os
import socketserver
import threading
import time
import urllib.parse

from torch import cuda

KIND = os.environ.get("FAKE_TORCH", "")
_LOCK = threading.Lock()


class Recorder:
    """PyTorch's FlightRecorder. It keeps the events of each entry until the entry is retired."""

    def __init__(self):
        self.entries, self.status, self.config = [], {}, {}

    def enqueue(self, entry, done=None):
        with _LOCK:
            self.entries.append({**entry, "time_created_ns": time.time_ns(), "time_discovered_completed_ns": 0,
                                 "retired": False, "state": "scheduled", "done": done})
            number = self.entries[-1]["p2p_seq_id" if entry["is_p2p"] else "collective_seq_id"]
            status = self.status.setdefault(str(entry["pg_id"]), {"enqueued": -1, "completed": -1})
            status["enqueued"] = number
            return self.entries[-1], number

    def retire(self, entry, number):
        with _LOCK:
            entry.update(retired=True, done=None, state="completed", time_discovered_completed_ns=time.time_ns())
            self.status[str(entry["pg_id"])]["completed"] = number

    def dump(self, with_entries, only_active=False):
        with _LOCK:
            answer = {"version": "2.10", "pg_config": self.config, "pg_status": {
                number: {"last_enqueued_collective": str(status["enqueued"]), "last_started_collective": "-1",
                         "last_completed_collective": str(status["completed"])}
                for number, status in self.status.items()}}
            entries = []
            for entry in self.entries if with_entries else ():
                shown = {key: value for key, value in entry.items() if key != "done"}
                if entry["done"] is not None and cuda.query(entry["done"]):
                    shown.update(state="completed", time_discovered_completed_ns=time.time_ns())
                if not (only_active and shown["state"] == "completed"):
                    entries.append(shown)
            if entries:
                answer["entries"] = entries
            return json.dumps(answer).encode()


GLOO, NCCL = Recorder(), Recorder()

if KIND not in ("old", "no_gloo"):  # older versions have no recorder for Gloo
    def _dump_fr_trace_json(include_collectives=True):
        return GLOO.dump(include_collectives)

if KIND != "old":
    def _dump_nccl_trace_json(includeCollectives=True, onlyActive=False):  # noqa: N803
        return NCCL.dump(includeCollectives, onlyActive)


def _gloo_handler(parameters):
    """Ignores all parameters."""
    return 200, GLOO.dump(True)


def _nccl_handler(parameters):
    """Accepts these parameters in this spelling, and no others."""
    chosen = {"includecollectives": True, "onlyactive": False}
    for name, value in parameters:
        if name not in chosen:
            return 400, b"Invalid parameters - unexpected param passed in"
        if value not in ("true", "false"):
            return 400, b"Invalid value for " + name.encode() + b" valid values are true or false"
        chosen[name] = value == "true"
    return 200, NCCL.dump(chosen["includecollectives"], chosen["onlyactive"])


_HANDLERS = {"ping": lambda parameters: (200, b"pong")}
if KIND != "old":
    _HANDLERS["dump_nccl_trace_json"] = _nccl_handler
if KIND not in ("old", "no_gloo"):
    _HANDLERS["fr_trace_json"] = _gloo_handler


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        url = urllib.parse.urlsplit(self.path)
        handler = _HANDLERS.get(url.path.removeprefix("/handler/"))
        status, answer = handler(urllib.parse.parse_qsl(url.query)) if handler else (404, b"Handler not found")
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer)

    def address_string(self):
        return "unix"

    def log_message(self, *words):
        pass


class _WorkerServer:
    """As in PyTorch, shutdown() waits for ever if the thread has not begun to serve, or if a client waits."""

    def __init__(self, path):
        if KIND == "no_server":
            raise RuntimeError("Error binding to " + path)
        self._server = socketserver.ThreadingUnixStreamServer(path, _Handler)
        self._server.daemon_threads = True  # Python does not wait for threads of C++ either
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        if KIND == "late_server":
            threading.Event().wait()
        self._server.serve_forever()

    def shutdown(self):
        threading.Event().wait()

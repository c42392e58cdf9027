"""Implements the recorder and its server. PyTorch's server is in C++ and answers while the program holds the
interpreter; this one does not."""
import http.server
import json
import os
import socketserver
import threading

ENTRIES = []


def _recording():
    return json.dumps({"entries": ENTRIES, "pg_config": {}, "pg_status": {}, "version": "2.10"}).encode()


if os.environ.get("FAKE_TORCH") != "old":  # older versions have no recorder for Gloo
    _dump_fr_trace_json = _recording


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        answer = _recording()
        self.send_response(200 if self.path.startswith("/handler/fr_trace_json") else 404)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def address_string(self):
        return "unix"

    def log_message(self, *words):
        pass


class _WorkerServer:
    def __init__(self, path):
        self._server = socketserver.ThreadingUnixStreamServer(path, _Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def shutdown(self):
        self._server.shutdown()

"""An MCP server over streamable HTTP, written from the specification for tests of the page: it can misbehave as wanted."""

import contextlib
import http.server
import json
import threading

HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STATELESS = "2026-07-28"
META = "io.modelcontextprotocol/protocolVersion"


def tool(name, description="", **properties):
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}}


WEATHER = {**tool("get_weather", "The weather in a city.", city={"type": "string"}), "title": "Weather"}
WEATHER["inputSchema"]["required"] = ["city"]


class McpServer:
    """Set its fields before or while a page uses it. `seen` has the requests: (HTTP method, headers, body)."""

    def __init__(self):
        self.seen = []
        self.tools = [WEATHER]
        self.results = {}          # by tool: the result of a call, or an exception
        self.delay = threading.Event()  # calls wait until it is set
        self.delay.set()
        self.origins = "*"         # for CORS; "": none
        self.exposes = "Mcp-Session-Id"
        self.form = "json"         # of answers: json, sse, or resumed: an SSE stream that ends early
        self.version = HANDSHAKE[0]
        self.has_sessions = True
        self.is_stateless = False  # only version 2026-07-28
        self.token = None
        self.needs_token_for = None  # a method; None: all
        self.page_size = 1         # tools per page of the list
        self.has_endless_list = False
        self.sessions = set()
        self.kept = {}             # responses to be resumed, by event id

    def calls(self, method="tools/call"):
        return [body for _, _, body in self.seen if body and body.get("method") == method]


class Refused(Exception):
    def __init__(self, status, code=None, text=""):
        self.status, self.code, self.text = status, code, text


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def mcp(self):
        return self.server.mcp

    def log_message(self, *_):
        pass

    def do_OPTIONS(self):
        self.reply(204)

    def do_DELETE(self):
        self.mcp.seen.append(("DELETE", dict(self.headers), None))
        self.mcp.sessions.discard(self.headers.get("Mcp-Session-Id"))
        self.reply(204)

    def do_GET(self):
        self.mcp.seen.append(("GET", dict(self.headers), None))
        kept = self.mcp.kept.pop(self.headers.get("Last-Event-ID"), None)
        if kept is None:
            return self.reply(405)
        self.reply(200, "text/event-stream", f"id: last\ndata: {json.dumps(kept)}\n\n")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.mcp.seen.append(("POST", dict(self.headers), body))
        try:
            self.check(body)
            if "id" not in body or "method" not in body:
                return self.reply(202)
            result = self.result_of(body["method"], body.get("params") or {})
            message = {"jsonrpc": "2.0", "id": body["id"], "result": result}
        except Refused as refused:
            if refused.code is None:
                return self.reply(refused.status, "text/plain", refused.text)
            message = {"jsonrpc": "2.0", "id": body.get("id"), "error": {"code": refused.code, "message": refused.text}}
            return self.reply(refused.status, "application/json", json.dumps(message))
        except ConnectionError:  # cuts the answer off
            self.reply(200, "application/json", "{", 100)
            self.close_connection = True
            return None
        self.send_message(body, message)

    def check(self, body):
        mcp, headers = self.mcp, self.headers
        is_open = mcp.needs_token_for not in (None, body.get("method"))
        if mcp.token and not is_open and headers.get("Authorization") != f"Bearer {mcp.token}":
            raise Refused(401, text="Unauthorized")
        assert headers["Content-Type"] == "application/json"
        assert headers["Accept"] == "application/json, text/event-stream"
        if mcp.is_stateless:
            if headers.get("MCP-Protocol-Version") != STATELESS or body["params"]["_meta"][META] != STATELESS:
                raise Refused(400, -32022, "Unsupported protocol version")
            name = body["params"].get("name") if body["method"] == "tools/call" else None
            if (headers.get("Mcp-Method"), headers.get("Mcp-Name")) != (body["method"], name):
                raise Refused(400, -32020, "Header mismatch")
        elif body.get("method") != "initialize":
            if mcp.has_sessions and "Mcp-Session-Id" not in headers:
                raise Refused(400, text="Missing session ID")
            if mcp.has_sessions and headers["Mcp-Session-Id"] not in mcp.sessions:
                raise Refused(404, text="Session not found")
            if headers.get("MCP-Protocol-Version") != mcp.version:
                raise Refused(400, text="Bad protocol version")

    def result_of(self, method, params):
        mcp = self.mcp
        if method == "initialize" and not mcp.is_stateless:
            assert params["protocolVersion"] == HANDSHAKE[0] and params["clientInfo"]["name"] == "nibble"
            return {"protocolVersion": mcp.version, "capabilities": {"tools": {}}, "serverInfo": {"name": "test", "version": "0"}}
        if method == "server/discover" and mcp.is_stateless:
            return {"resultType": "complete", "supportedVersions": [STATELESS], "capabilities": {"tools": {}}}
        if method == "tools/list":
            begin = int(params.get("cursor", "0"))
            end = begin + mcp.page_size
            is_last = end >= len(mcp.tools) and not mcp.has_endless_list
            return {"tools": mcp.tools[begin:end], **({} if is_last else {"nextCursor": str(end)})}
        if method == "tools/call":
            mcp.delay.wait(60)
            result = mcp.results.get(params["name"], {"content": [{"type": "text", "text": f"called with {json.dumps(params['arguments'])}"}]})
            if isinstance(result, Exception):
                raise result
            return result
        raise Refused(404 if mcp.is_stateless else 200, -32601, f"Method not found: {method}")

    def send_message(self, body, message):
        if self.mcp.form == "json" or body["method"] == "initialize":
            return self.reply(200, "application/json; charset=utf-8", json.dumps(message))
        before = 'event: message\r\ndata: {"jsonrpc": "2.0", "id": "p", "method": "ping"}\r\n\r\n: comment\r\n\r\n' \
            'data: {"jsonrpc": "2.0", "method": "notifications/message",\r\ndata: "params": {"level": "info", "data": "x"}}\r\n\r\n'
        if self.mcp.form == "resumed":
            number = f"{len(self.mcp.seen)}"
            self.mcp.kept[number] = message
            return self.reply(200, "text/event-stream", f"id: {number}\nretry: 10\ndata:\n\n")
        self.reply(200, "text/event-stream", before + f"data: {json.dumps(message)}\r\n\r\n")

    def reply(self, status, type="", body="", num_lost=0):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) + num_lost))
        if type:
            self.send_header("Content-Type", type)
        if self.mcp.origins and self.headers.get("Origin"):
            self.send_header("Access-Control-Allow-Origin", self.mcp.origins)
            self.send_header("Access-Control-Allow-Methods", "GET, POST, DELETE")
            self.send_header("Access-Control-Allow-Headers",
                             "authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id")
            self.send_header("Access-Control-Expose-Headers", self.mcp.exposes)
        if status == 200 and self.mcp.has_sessions and not self.mcp.is_stateless and not self.headers.get("Mcp-Session-Id") and self.command == "POST":
            session = f"session-{len(self.mcp.seen)}"
            self.mcp.sessions.add(session)
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()
        self.wfile.write(data)


@contextlib.contextmanager
def mcp_serving():
    """Yields a server; its `url` is its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.mcp = McpServer()
    server.mcp.origin = f"http://127.0.0.1:{server.server_address[1]}"
    server.mcp.url = server.mcp.origin + "/mcp"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.mcp
    finally:
        server.mcp.delay.set()
        server.shutdown()
        server.server_close()
        thread.join()

"""A pretend model behind the OpenAI chat protocol, so that demos and tests run offline with the real clients.

`LoopbackServer` speaks the protocol on 127.0.0.1 and is as strict about the order of messages as the real API: a
history that providers would refuse is refused here. What it says comes from a `Responder`; `memory_assistant` is one
that knows nothing but its prompt, so a right answer proves that the memory put it there.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from socketserver import TCPServer
from typing import Self, TypeAlias
from urllib.parse import urlsplit

from ..rules.tokens import count_tokens
from ..types import Json
from .assistant import memory_assistant
from .protocol import (
    ApiError,
    ChatReply,
    ChatRequest,
    Message,
    Responder,
    ToolCall,
    dumps,
    mapping,
    parse,
    read_request,
    text_of,
)

__all__ = [
    "ApiError",
    "ChatReply",
    "ChatRequest",
    "LoopbackServer",
    "Message",
    "Responder",
    "ToolCall",
    "memory_assistant",
    "text_of",
]

_Answer: TypeAlias = Message | Iterator[Message]  # one JSON object, or the events of a stream

_PIECE = 8  # characters a streamed event carries


class LoopbackServer:
    """An OpenAI-compatible server on a free port of 127.0.0.1, running from construction to `close`.

    `strict_system` allows one system message, the first, as the templates of Qwen and others do. `count` counts the
    tokens of a text for `usage`. Every request needs `Authorization: Bearer <api_key>`.
    """

    def __init__(
        self,
        responder: Responder,
        *,
        strict_system: bool = False,
        api_key: str = "loopback",
        count: Callable[[str], int] = count_tokens,
    ) -> None:
        self._responder = responder
        self._strict_system = strict_system
        self._api_key = api_key
        self._count = count
        self._lock = threading.Lock()
        self._requests: list[Message] = []
        self._prompt_tokens = 0
        self._http = _HttpServer(self._route)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def base_url(self) -> str:
        """What clients take as `base_url` or `api_base`."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def requests(self) -> tuple[Message, ...]:
        """The bodies of all chat requests so far, refused ones too."""
        with self._lock:
            return tuple(self._requests)

    @property
    def prompt_tokens(self) -> int:
        """The tokens of all prompts answered so far: texts, calls and offered tools."""
        with self._lock:
            return self._prompt_tokens

    def close(self) -> None:
        """Stop listening, hang up on clients and wait for the threads; a second call does nothing."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._http.hang_up()

    def _route(self, method: str, path: str, authorization: str | None, raw: bytes) -> _Answer:
        if authorization != f"Bearer {self._api_key}":
            raise ApiError("Incorrect or missing API key.", status=401, code="invalid_api_key")
        match method, path:
            case "GET", "/v1/models":
                return {
                    "object": "list",
                    "data": [{"id": "loopback", "object": "model", "owned_by": "sf-ams"}],
                }
            case "POST", "/v1/chat/completions":
                return self._complete(parse(raw))
        raise ApiError(f"Unknown request URL: {method} {path}.", status=404, code="unknown_url")

    def _complete(self, body: Message) -> _Answer:
        with self._lock:
            self._requests.append(body)
        request = read_request(body, strict_system=self._strict_system)
        reply = self._responder(request)
        completion = _Completion(request.model, reply, self._usage(request, reply))
        if body.get("stream"):
            return completion.events(usage=bool(mapping(body.get("stream_options")).get("include_usage")))
        return completion.body()

    def _usage(self, request: ChatRequest, reply: ChatReply) -> Json:
        prompt = request.tokens(self._count)
        said = [reply.content or "", *(call.name + dumps(call.arguments) for call in reply.tool_calls)]
        completion = sum(map(self._count, said))
        with self._lock:
            self._prompt_tokens += prompt
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


class _HttpServer(ThreadingHTTPServer):
    """Threads that die with the process, yet are waited for on close; kept-alive connections are hung up."""

    request_queue_size = 128

    def __init__(self, route: Callable[[str, str, str | None, bytes], _Answer]) -> None:
        self.route = route
        self._clients: list[tuple[socket, threading.Thread]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        # HTTPServer would ask DNS for the name of the host.
        TCPServer.server_bind(self)
        self.server_port = int(self.socket.getsockname()[1])

    def process_request(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        assert isinstance(request, socket)
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        thread.start()
        self._clients = [client for client in self._clients if client[1].is_alive()] + [(request, thread)]

    def hang_up(self) -> None:
        for client, thread in self._clients:
            with suppress(OSError):
                client.shutdown(SHUT_RDWR)
            thread.join()

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client may leave in the middle of a stream
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HttpServer

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        raw = self.rfile.read(int(length)) if length.isdecimal() else b""
        path = urlsplit(self.path).path
        try:
            answer = self.server.route(self.command, path, self.headers.get("Authorization"), raw)
        except ApiError as fault:
            self._send(fault.status, fault.body)
        else:
            self._send(200, answer) if isinstance(answer, Mapping) else self._stream(answer)

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815 - the names that http.server calls

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""

    def _send(self, status: int, body: Message) -> None:
        raw = dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, events: Iterator[Message]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for data in (*map(dumps, events), "[DONE]"):
            raw = f"data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))
        self.wfile.write(b"0\r\n\r\n")


@dataclass(frozen=True, slots=True)
class _Completion:
    """One reply in the two forms of the protocol."""

    model: str
    reply: ChatReply
    usage: Json

    def body(self) -> Message:
        calls = [_call_json(call) for call in self.reply.tool_calls]
        content = self.reply.content if calls else self.reply.content or ""
        message: dict[str, Json] = {"role": "assistant", "content": content, "refusal": None}
        if calls:
            message["tool_calls"] = [*calls]
        choice: Json = {"index": 0, "message": message, "finish_reason": self._finish, "logprobs": None}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self.usage}

    def events(self, *, usage: bool) -> Iterator[Message]:
        head = self._head("chat.completion.chunk")
        for delta in self._deltas():
            yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": self._finish}]}
        if usage:
            yield {**head, "choices": [], "usage": self.usage}

    def _deltas(self) -> Iterator[dict[str, Json]]:
        yield {"role": "assistant", "content": None if self.reply.tool_calls else ""}
        for piece in _pieces(self.reply.content or ""):
            yield {"content": piece}
        for index, call in enumerate(self.reply.tool_calls):
            function: Json = {"name": call.name, "arguments": ""}
            yield {"tool_calls": [{**_call_json(call), "index": index, "function": function}]}
            for piece in _pieces(dumps(call.arguments)):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    @property
    def _finish(self) -> str:
        return "tool_calls" if self.reply.tool_calls else "stop"

    def _head(self, kind: str) -> dict[str, Json]:
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
        }


def _call_json(call: ToolCall) -> dict[str, Json]:
    function: Json = {"name": call.name, "arguments": dumps(call.arguments)}
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))

"""A pretend model behind the OpenAI chat protocol, so that demos and tests run offline with the real clients.

`LoopbackServer` speaks the protocol on 127.0.0.1 and is as strict about the order of messages as the real API: a
history that providers would refuse is refused here. What it says comes from a `Responder`; `memory_assistant` is one
that knows nothing but its prompt, so a right answer proves that the memory put it there.
"""

from __future__ import annotations

import html
import json
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from socketserver import TCPServer
from typing import Self, TypeAlias
from urllib.parse import urlsplit

from ..rules.text import MEMORY_HEADER_EN, MEMORY_HEADER_ZH, MEMORY_TAG, index_terms, language, query_terms, stem
from ..rules.tokens import count_tokens
from ..types import Json

Message: TypeAlias = Mapping[str, Json]

_SYSTEM = ("system", "developer")
_PIECE = 8  # characters a streamed event carries


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asks for; `arguments` become its JSON."""

    name: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a responder says: text, calls of tools, or both."""

    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A valid request: OpenAI messages in order, and the tools that may be called (none with `tool_choice: none`)."""

    messages: tuple[Message, ...]
    tools: tuple[Message, ...] = ()
    model: str = "loopback"

    def tool(self, name: str) -> Message | None:
        """The function object (name, description, parameters) of the tool `name`; None where it is not offered."""
        functions = (_mapping(tool.get("function")) for tool in self.tools)
        return next((function for function in functions if function.get("name") == name), None)


Responder: TypeAlias = Callable[[ChatRequest], ChatReply]
_Answer: TypeAlias = Message | Iterator[Message]  # one JSON object, or the events of a stream


class ApiError(Exception):
    """An answer in OpenAI's error form; a responder may raise it to play a model that fails (`status` 429, 500 …)."""

    def __init__(self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        kind = "invalid_request_error" if status < 429 else "server_error"
        self.body: Message = {"error": {"message": message, "type": kind, "param": param, "code": code}}


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
                return self._complete(_parse(raw))
        raise ApiError(f"Unknown request URL: {method} {path}.", status=404, code="unknown_url")

    def _complete(self, body: Message) -> _Answer:
        with self._lock:
            self._requests.append(body)
        request = _read_request(body, strict_system=self._strict_system)
        reply = self._responder(request)
        completion = _Completion(request.model, reply, self._usage(request, reply))
        if body.get("stream"):
            return completion.events(usage=bool(_mapping(body.get("stream_options")).get("include_usage")))
        return completion.body()

    def _usage(self, request: ChatRequest, reply: ChatReply) -> Json:
        calls = [_dumps(call) for message in request.messages for call in _calls(message)]
        prompt = sum(map(self._count, [*map(text_of, request.messages), *calls, *map(_dumps, request.tools)]))
        said = [reply.content or "", *(call.name + _dumps(call.arguments) for call in reply.tool_calls)]
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
        raw = _dumps(body).encode()
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
        for data in (*map(_dumps, events), "[DONE]"):
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
            for piece in _pieces(_dumps(call.arguments)):
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


def _parse(raw: bytes) -> Message:
    with suppress(ValueError):
        body = json.loads(raw)
        if isinstance(body, dict) and isinstance(body.get("model"), str):
            return body
    raise ApiError("Expected a JSON object with a model.", "model")


def _read_request(body: Message, *, strict_system: bool) -> ChatRequest:
    """The request in `body`; raises ApiError where the real API would answer 400."""
    raw = body.get("messages")
    if not isinstance(raw, list) or not raw:
        raise ApiError("Invalid 'messages': expected a non-empty array.", "messages", code="empty_array")
    messages = tuple(_check_message(f"messages.[{place}]", _mapping(message)) for place, message in enumerate(raw))
    _check_order(messages)
    systems = [place for place, message in enumerate(messages) if message["role"] in _SYSTEM]
    if strict_system and systems not in ([], [0]):
        raise ApiError("System message must be at the beginning.", f"messages.[{systems[-1]}].role")
    return ChatRequest(messages, _offered(body), str(body["model"]))


def _check_message(where: str, message: Message) -> Message:
    role, content, calls = message.get("role"), message.get("content"), _calls(message)
    if role not in (*_SYSTEM, "user", "assistant", "tool"):
        raise ApiError(f"Invalid role: {role!r}.", f"{where}.role", code="invalid_value")
    if message.get("tool_calls") is not None and not (calls and all(map(_is_call, calls))):
        raise ApiError("Invalid 'tool_calls': expected a non-empty array of calls.", f"{where}.tool_calls")
    silent = content is None and role == "assistant" and calls
    if not (silent or isinstance(content, str) or _is_parts(content)):
        raise ApiError("Invalid content: expected a string or parts.", f"{where}.content", code="invalid_type")
    return message


def _is_parts(content: Json) -> bool:
    kinds = [_mapping(part).get("type") for part in content] if isinstance(content, list) else []
    return bool(kinds) and all(kind in ("text", "image_url", "input_audio", "file", "refusal") for kind in kinds)


def _is_call(call: Message) -> bool:
    function = _mapping(call.get("function"))
    return all(isinstance(text, str) for text in (call.get("id"), function.get("name"), function.get("arguments")))


def _check_order(messages: Sequence[Message]) -> None:
    """Each call is answered once, before anything else is said; raises ApiError otherwise."""
    waiting: set[str] = set()
    for place, message in enumerate((*messages, {"role": "end"})):
        where = f"messages.[{place}].role"
        if message["role"] == "tool":
            answered = str(message.get("tool_call_id"))
            if answered not in waiting:
                raise ApiError("A 'tool' message must answer a preceding message with 'tool_calls'.", where)
            waiting.remove(answered)
        elif waiting:
            raise ApiError(f"These 'tool_calls' have no response messages: {', '.join(sorted(waiting))}.", where)
        else:
            ids = [str(call["id"]) for call in _calls(message)]
            waiting = set(ids)
            if len(waiting) < len(ids):
                raise ApiError("Two 'tool_calls' share an id.", where)


def _offered(body: Message) -> tuple[Message, ...]:
    raw, choice = body.get("tools"), body.get("tool_choice")
    tools = tuple(_mapping(tool) for tool in raw) if isinstance(raw, list) else ()
    if not all(isinstance(_mapping(tool.get("function")).get("name"), str) for tool in tools):
        raise ApiError("Invalid 'tools': each needs a function with a name.", "tools")
    if isinstance(choice, dict):
        chosen = _mapping(choice.get("function")).get("name")
        tools = tuple(tool for tool in tools if _mapping(tool["function"])["name"] == chosen)
    if choice not in (None, "auto", "none") and not tools:
        raise ApiError("Invalid 'tool_choice': no such tool was offered.", "tool_choice")
    return () if choice == "none" else tools


def text_of(message: Message) -> str:
    """The text of a message; of content parts those that are text."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(text) for part in content if (text := _mapping(part).get("text")) is not None)
    return content if isinstance(content, str) else ""


def _calls(message: Message) -> list[Message]:
    calls = message.get("tool_calls")
    return [_mapping(call) for call in calls] if isinstance(calls, list) else []


def _call_json(call: ToolCall) -> dict[str, Json]:
    function: Json = {"name": call.name, "arguments": _dumps(call.arguments)}
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


def _mapping(value: Json) -> Message:
    return value if isinstance(value, dict) else {}


def _dumps(value: Json | Message) -> str:
    return json.dumps(value, ensure_ascii=False)


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


# What the assistant knows of projects: words of one meaning, led by the one that stands for all.
_VOCABULARY = """
    demo presentation 演示
    deadline due date 截止日期 截止 期限 日期
    budget money cost 预算 经费 费用
    goal aim purpose 目标 目的
    risk worry danger 风险 隐患
    decision decide choose chose chosen agree 决定 选择 选用 选了 定了
    preference prefer like favourite want 喜欢 偏好 想要 希望
    answer reply 回答 回复
    contact reach sms email text phone 联系 短信 邮件 电话
    customer client 客户
    design designer 设计
    backend 后端
    test tester 测试
    data 数据
    clean 清洗 清理
    database 数据库
    language english chinese 语言 英语 中文
    colour color 颜色
    standup stand-up 站会 晨会
    away holiday leave absent 休假 请假 不在
    responsible owner own lead charge 负责
    approval approve sign 批准 签字 验收
    place venue room office 地点 会议室 办公室
    report 报告 周报
    freeze frozen 冻结
"""
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_HOUR = r"(?:\d|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon|midnight)"
# What a kind of question asks for, and what a line must hold to answer it.
_ANSWERS = tuple(
    (re.compile(asks), re.compile(fits))
    for asks, fits in (
        (
            r"\bwhen\b|\b(?:what|which) (?:time|date|day)\b|什么时候|何时|哪一?[天日]|几[点号月]|[星周]期?几",
            rf"\d{{4}}-\d|\d(?:st|nd|rd|th)? {_MONTH}|\b{_MONTH} \d|january|february|october|november|december"
            r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow|tonight"
            rf"|\bat {_HOUR}\b|o'clock|\d ?[ap]m\b|\d:\d"
            r"|[\d一二三四五六七八九十][月日号点]|[周期][一二三四五六日天末]|[今明后][天年]",
        ),
        (r"\bhow (?:much|many)\b|多少|几[个人位次]", rf"\d|\b{_HOUR}\b|dozen|hundred|[一二两三四五六七八九十百千万]"),
        (r"\bwhere\b|哪里|哪儿|什么地方", r"\b(?:in|at|room|office|street|floor)\b|[在室楼厅]"),
    )
)
_QUESTION = re.compile(
    r"^(?:who|whose|what|when|where|which|why|how)\b|什么样?|谁|哪|多少|怎么|为何|何时|是不是|几[点号月个天]"
)
_QUESTION_WORDS = re.compile("|".join([*(asks.pattern for asks, _ in _ANSWERS), _QUESTION.pattern]), re.IGNORECASE)
_TELL = re.compile(r"(?:please |请)?(?:tell me|remind me|告诉我|提醒我)")
_CHANGED = re.compile(
    r"\bactually\b|\b(?:moved|changed|replaced|switched)\b|no longer|from now on|改|换|不再|推迟|提前|更正"
)
_FORMERLY = re.compile(
    r"\boriginal(?:ly)?\b|\bused to\b|\bat first\b|\bpreviously\b|\bearlier\b|原来|原定|原本|本来|之前|以前|最初|当初"
)
_ASIDE = r"(?:(?:please|also|and|ok|okay|so|hey|now|can you|could you|would you)[\s,]+)*(?:请|你|帮我|麻烦|另外|再|，)*"
_WHAT = r"[\s:：,，]*(?:that\b|about\b|关于|一下)?[\s:：,，]*(?P<what>.+)"
# Orders to a tool of the memory, by the words that open them; then its arguments where the schema names none.
_ORDERS = {
    tool: re.compile(f"{_ASIDE}(?:{verbs}){_WHAT}", re.IGNORECASE | re.DOTALL)
    for tool, verbs in (
        (
            "save_memory",
            r"(?:remember|keep in mind|(?:don't|do not) forget|note down)\b|记住|记下|记一下|别忘了|不要忘[了记]",
        ),
        ("forget_memory", r"forget\b|忘掉|忘记|忘了"),
        ("correct_memory", r"correct(?:ion)?\s*[:：]|(?:更正|纠正)(?:一下)?\s*[:：,，]"),
    )
}
_ARGUMENTS = {
    "save_memory": ("content",),
    "recall_memories": ("query",),
    "forget_memory": ("target",),
    "correct_memory": ("target", "new_content"),
}
_FAILED = re.compile(r"\s*(?:error|failed|refused|could not|cannot|错误|失败|无法|拒绝)", re.IGNORECASE)
_MEMORY_LINE = re.compile(r"- \[[^\]]*\] \((?P<about>[^)]*)\)\s*(?P<words>.*)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_LABEL = re.compile(r"(?:summary|摘要)\s*[:：]\s*", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?;]) |(?<=[。！？；])")
_SAYINGS = {
    "known": ("As far as I know: ", "据我所知："),
    "unknown": ("I don't know yet.", "我还不知道。"),
    "noted": ("Got it.", "好的。"),
    "failed": ("That did not work.", "这次没有成功。"),
    "save_memory": ("Saved, I will remember that.", "已记住。"),
    "forget_memory": ("Done, I have let go of that.", "已忘掉。"),
    "correct_memory": ("Corrected.", "已更正。"),
}
_OWN_WORDS = tuple(saying for pair in _SAYINGS.values() for saying in pair)
_ENOUGH = 0.42  # of what a question names, by weight, a line must hold to answer it


def memory_assistant(request: ChatRequest) -> ChatReply:
    """A project assistant by rules, without any knowledge of its own.

    A question is answered with the line of the prompt (memory block, earlier words of the user, results of tools) that
    fits it best, the newest where lines differ in time; where nothing fits, it asks `recall_memories` if that is
    offered, else says that it does not know. "Remember …", "forget …" and "correct: …" call the tool where there is
    one. Anything else is acknowledged.
    """
    asked, lines = _read_prompt(request.messages)
    if request.messages[-1]["role"] == "tool":
        return ChatReply(_after_tools(request.messages, asked, lines))
    if call := _order(request, asked, lines):
        return ChatReply(tool_calls=(call,))
    if not _asks(asked):
        return ChatReply(_say("noted", asked))
    if request.tool("recall_memories") and _best(asked, lines) is None:
        return ChatReply(tool_calls=(_call(request, "recall_memories", (asked,)),))
    return ChatReply(_answer(asked, lines))


@dataclass(frozen=True, slots=True)
class _Line:
    """A statement of the prompt; `age` sorts from the oldest to the newest."""

    text: str
    age: tuple[int, str, int]


def _read_prompt(messages: Sequence[Message]) -> tuple[str, list[_Line]]:
    """The user's last words, and every statement before them that may serve as evidence."""
    last = max((place for place, message in enumerate(messages) if message["role"] == "user"), default=-1)
    asked, lines = "", list[_Line]()
    for place, message in enumerate(messages):
        said, block = _split_block(text_of(message))
        lines += _memory_lines(block)
        if place == last:
            asked = said
        elif message["role"] == "user":
            lines += [_Line(line, (1, "", place)) for line in said.splitlines()]
        elif message["role"] == "tool":
            lines += _memory_lines(said)
    return asked, [line for line in lines if _is_statement(line.text)]


def _split_block(text: str) -> tuple[str, str]:
    """What was said, and what the library put between its fences."""
    for header in (MEMORY_HEADER_EN, MEMORY_HEADER_ZH):
        text = text.replace(header, "")
    said, *rest = text.split(f"<{MEMORY_TAG}")
    blocks = [part.partition(f"</{MEMORY_TAG}>") for part in rest]
    spoken = "\n".join([said, *(after for _, _, after in blocks)])
    # Frameworks wrap the block in tags of their own, one a line.
    kept = [line for line in spoken.splitlines() if not (line.startswith("<") and line.rstrip().endswith(">"))]
    return "\n".join(kept).strip(), "\n".join(block.partition(">")[2] for block, _, _ in blocks)


def _memory_lines(block: str) -> Iterator[_Line]:
    """The lines of a block without marks and ids. Of one day the first is the newest: successors lead."""
    for place, raw in enumerate(block.splitlines()):
        line = html.unescape(raw.strip())
        if memory := _MEMORY_LINE.match(line):
            day = _DAY.search(memory["about"])
            yield _Line(memory["words"], (0, day[0] if day else "", -place))
        elif line.startswith("- "):
            yield _Line(line[2:], (0, "9999", -place))  # an exact fact is always the present one
        else:
            yield from (_Line(part.strip(), (0, "", -place)) for part in _SENTENCE_END.split(_LABEL.sub("", line)))


def _is_statement(text: str) -> bool:
    return bool(text) and not (_asks(text) or text.startswith(_OWN_WORDS) or _ORDERS["forget_memory"].match(text))


def _asks(text: str) -> bool:
    words = text.strip().lower()
    if words.endswith(("?", "？", "吗")) or "? " in words or _TELL.match(words):
        return True
    return not words.endswith((".", "!", "。", "！")) and bool(_QUESTION.search(words))


def _answer(asked: str, lines: Sequence[_Line]) -> str:
    best = _best(asked, lines)
    if best is None:
        return _say("unknown", asked)
    order = next((order for opening in _ORDERS.values() if (order := opening.match(best.text))), None)
    return _say("known", asked) + (order["what"] if order else best.text)


def _best(asked: str, lines: Sequence[_Line]) -> _Line | None:
    """The line that answers: of versions of one statement the newest, or the oldest if the question looks back."""
    fits = [fits for asks, fits in _ANSWERS if asks.search(asked.lower())]
    wanted = _features(_QUESTION_WORDS.sub(" ", asked))
    if fits and len(wanted) > 1:
        wanted.pop("deadlin", None)  # the kind of answer, not its subject
    scored = [(_share(wanted, line), line) for line in lines if all(fit.search(line.text.lower()) for fit in fits)]
    good = [(score, line) for score, line in scored if score >= _ENOUGH]
    if not good:
        return None
    best = max(good, key=lambda pair: (pair[0], pair[1].age))[1]
    if _FORMERLY.search(asked.lower()):
        return min((line for _, line in good if line is best or _replaces(best, line)), key=lambda line: line.age)
    return max((line for _, line in good if line is best or _replaces(line, best)), key=lambda line: line.age)


def _share(wanted: Mapping[str, int], line: _Line) -> float:
    """How much of `wanted` a line holds, by weight (0 to 1), and up to 0.1 more the less else it holds."""
    held = _features(line.text)
    common = sum(weight for term, weight in wanted.items() if term in held)
    return common / max(sum(wanted.values()), 1) + 0.1 * common / max(sum(held.values()), common, 1)


def _replaces(new: _Line, old: _Line) -> bool:
    """Whether a newer line tells the same thing anew: it speaks of a change, or in almost the same words."""
    if new.age <= old.age:
        return False
    mine, theirs = ({term for term in _features(line.text) if not term[0].isdigit()} for line in (new, old))
    return bool(_CHANGED.search(new.text.lower())) or len(mine & theirs) >= 0.7 * len(mine | theirs)


def _features(text: str) -> dict[str, int]:
    """The terms of a text with their weights: words of the trade 3, common words 2, names, numbers and pairs 1."""
    pattern, meanings = _vocabulary()
    plain = pattern.sub(lambda word: f" {known} " if (known := meanings.get(stem(word[0]))) else word[0], text.lower())
    names = {stem(name.lower()) for name in re.findall(r"\b[A-Z]\w+", text)}
    trade = set(meanings.values())

    def weight(term: str) -> int:
        if term in trade:
            return 3
        return 1 if term in names or not term.isascii() or term[0].isdigit() else 2

    filed = set(index_terms(plain))  # stop words, which a question of nothing else falls back on, are not filed
    return {term: weight(term) for term in query_terms(plain) if term in filed}


@cache
def _vocabulary() -> tuple[re.Pattern[str], Mapping[str, str]]:
    rows = [row.split() for row in _VOCABULARY.split("\n") if row.strip()]
    meanings = {stem(word): stem(row[0]) for row in rows for word in row}
    literal = sorted((word for word in meanings if not stem(word).isascii() or "-" in word), key=len, reverse=True)
    return re.compile("|".join([*literal, "[a-z]+"])), meanings


def _order(request: ChatRequest, asked: str, lines: Sequence[_Line]) -> ToolCall | None:
    for name, opening in _ORDERS.items():
        order = opening.match(asked)
        if order is None or request.tool(name) is None:
            continue
        what = order["what"].strip(" .。!！")
        if _features(what) and not _asks(order["what"]):
            meant = _best(what, lines)
            target = meant.text if meant else what
            return _call(request, name, (target, what) if name == "correct_memory" else (what,))
    return None


def _call(request: ChatRequest, name: str, values: tuple[str, ...]) -> ToolCall:
    """A call with `values` under the names that the tool's schema requires, in its order, as a model reads them."""
    schema = _mapping((request.tool(name) or {}).get("parameters"))
    required, properties = schema.get("required"), [*_mapping(schema.get("properties"))]
    offered = required if isinstance(required, list) else properties
    names = [str(argument) for argument in offered] if len(offered) >= len(values) else _ARGUMENTS[name]
    return ToolCall(name, dict(zip(names, values, strict=False)))


def _after_tools(messages: Sequence[Message], asked: str, lines: Sequence[_Line]) -> str:
    """What to say after tools ran: whether an order was carried out, else the answer."""
    place = max(place for place, message in enumerate(messages) if message["role"] == "assistant")
    if any(_FAILED.match(text_of(result)) for result in messages[place + 1 :]):
        return _say("failed", asked)
    called = (str(_mapping(call.get("function")).get("name")) for call in _calls(messages[place]))
    done = next((name for name in called if name in _ORDERS), None)
    return _say(done, asked) if done else _answer(asked, lines)


def _say(what: str, to: str) -> str:
    english, chinese = _SAYINGS[what]
    return chinese if language(to) == "zh" else english

"""The pretend model server with the real clients."""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike  # type: ignore[import-untyped]
from pydantic import SecretStr

from sf_ams_core.cli.loopback import (
    ApiError,
    ChatReply,
    ChatRequest,
    LoopbackServer,
    Message,
    ToolCall,
    text_of,
)
from sf_ams_core.types import Json

LOOKUP: Message = {
    "type": "function",
    "function": {"name": "lookup", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CALL: dict[str, Json] = {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
USER: Message = {"role": "user", "content": "Hello"}


def parrot(request: ChatRequest) -> ChatReply:
    """Says the last message again; with tools it looks two cities up at once."""
    said = text_of(request.messages[-1])
    if request.tool("lookup") and request.messages[-1]["role"] == "user":
        return ChatReply(None, (ToolCall("lookup", {"city": "奥斯陆"}), ToolCall("lookup", {"city": "Bergen"})))
    return ChatReply(f"You said: {said}")


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(parrot, count=words) as running:
        yield running


@pytest.fixture
def http(server: LoopbackServer) -> Iterator[httpx.Client]:
    headers = {"Authorization": "Bearer loopback"}
    with httpx.Client(base_url=server.base_url, headers=headers) as client:
        yield client


@pytest.fixture
def client(server: LoopbackServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.base_url, api_key="loopback", max_retries=0) as client:
        yield client


def post(http: httpx.Client, *messages: Message, **more: Json) -> httpx.Response:
    return http.post("/chat/completions", json={"model": "m", "messages": list(messages), **more})


# The protocol


def test_a_plain_reply(client: openai.OpenAI) -> None:
    """A completion carries the responder's text, the model's name and counted usage."""
    reply = client.chat.completions.create(model="any", messages=[{"role": "user", "content": "one two three"}])
    assert reply.choices[0].message.content == "You said: one two three"
    assert (reply.choices[0].finish_reason, reply.model) == ("stop", "any")
    assert reply.usage
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (3, 5)


def test_a_streamed_reply(client: openai.OpenAI) -> None:
    """A stream comes in pieces that join to the reply, with usage last where it is asked for."""
    stream = client.chat.completions.create(
        model="any",
        messages=[{"role": "user", "content": "今天的天气非常好，我们去海边吧"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert len(pieces) > 2
    assert "".join(pieces) == "You said: 今天的天气非常好，我们去海边吧"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage
    assert chunks[-1].usage.total_tokens == 4


def test_a_stream_without_usage(http: httpx.Client) -> None:
    """Without `include_usage` no event carries usage, and the stream ends with [DONE]."""
    events = post(http, USER, stream=True).text.strip().split("\n\n")
    assert events[-1] == "data: [DONE]"
    assert not any("usage" in event for event in events)


def test_a_stream_that_is_left(http: httpx.Client) -> None:
    """A client that leaves in the middle of a stream harms nobody."""
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 500_000}], "stream": True}
    with http.stream("POST", "/chat/completions", json=body) as response:
        next(response.iter_raw())
    assert post(http, USER).status_code == 200


def test_parallel_tool_calls(http: httpx.Client) -> None:
    """Two calls in one reply have ids of their own and JSON arguments."""
    choice = post(http, USER, tools=[dict(LOOKUP)]).json()["choices"][0]
    calls = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert [json.loads(call["function"]["arguments"])["city"] for call in calls] == ["奥斯陆", "Bergen"]
    assert len({call["id"] for call in calls}) == 2


def test_answered_calls_go_on(http: httpx.Client) -> None:
    """A history in which every call is answered, in any order, is accepted."""
    calls: Message = {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "call_2"}]}
    response = post(http, USER, calls, result("call_2"), result("call_1"))
    assert response.json()["choices"][0]["message"]["content"] == "You said: found"


def result(call_id: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": "found"}


CALLING: Message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
REFUSED: dict[str, tuple[Message, ...]] = {
    "no messages": (),
    "a result without a call": (USER, result("call_1")),
    "a result of another call": (USER, CALLING, result("call_9")),
    "a result twice": (USER, CALLING, result("call_1"), result("call_1")),
    "a result after the next question": (USER, CALLING, USER, result("call_1")),
    "a call that nobody answers": (USER, CALLING, USER),
    "a call at the end": (USER, CALLING),
    "two calls with one id": (USER, {**CALLING, "tool_calls": [CALL, CALL]}, result("call_1")),
    "an empty list of calls": (USER, {"role": "assistant", "content": "x", "tool_calls": []}),
    "a call without a function": (USER, {**CALLING, "tool_calls": [{"id": "call_1"}]}, result("call_1")),
    "an unknown role": ({"role": "narrator", "content": "Once"},),
    "no content": ({"role": "user"},),
    "content that is a number": ({"role": "user", "content": 5},),
    "content without parts": ({"role": "user", "content": []},),
    "a part of an unknown type": ({"role": "user", "content": [{"type": "smell"}]},),
    "an assistant that says and calls nothing": (USER, {"role": "assistant", "content": None}, USER),
}


@pytest.mark.parametrize("messages", REFUSED.values(), ids=REFUSED)
def test_what_the_real_api_refuses(http: httpx.Client, messages: tuple[Message, ...]) -> None:
    """Histories that providers refuse are answered 400 in OpenAI's error form."""
    response = post(http, *messages)
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["type"] == "invalid_request_error"
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"].startswith("messages")


def test_the_client_raises_for_an_orphan_result(client: openai.OpenAI) -> None:
    """The official client turns the refusal into BadRequestError, streamed or not."""
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="must answer a preceding message"):
            client.chat.completions.create(
                model="any", messages=[{"role": "tool", "tool_call_id": "x", "content": "1"}], stream=stream
            )


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"messages": []}', b"\xff"])
def test_a_body_that_is_no_request(http: httpx.Client, body: bytes) -> None:
    """A body that is not a JSON object with a model is refused, and the connection lives on."""
    assert http.post("/chat/completions", content=body).status_code == 400
    assert post(http, USER).status_code == 200


def test_text_parts_are_read(http: httpx.Client) -> None:
    """The text of content parts is what was said; images are let through."""
    image: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    response = post(http, {"role": "user", "content": [{"type": "text", "text": "Look"}, image]})
    assert response.json()["choices"][0]["message"]["content"] == "You said: Look"


SYSTEM: Message = {"role": "system", "content": "Be kind."}


@pytest.mark.parametrize("messages", [(USER, SYSTEM), (SYSTEM, USER, SYSTEM), (SYSTEM, SYSTEM, USER)])
def test_strict_templates(http: httpx.Client, messages: tuple[Message, ...]) -> None:
    """`strict_system` refuses a second or a late system message; the lenient server takes them."""
    assert post(http, *messages).status_code == 200
    with (
        LoopbackServer(parrot, strict_system=True) as strict,
        httpx.Client(base_url=strict.base_url, headers={"Authorization": "Bearer loopback"}) as other,
    ):
        refused = post(other, *messages)
        assert (refused.status_code, post(other, SYSTEM, USER).status_code) == (400, 200)
        assert "must be at the beginning" in refused.json()["error"]["message"]


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer other"}, {"Authorization": "loopback"}])
def test_no_key_no_answer(server: LoopbackServer, headers: dict[str, str]) -> None:
    """A missing or wrong key is answered 401 at every endpoint."""
    with httpx.Client(base_url=server.base_url, headers=headers) as stranger:
        refused = (post(stranger, USER), stranger.get("/models"))
    assert [response.status_code for response in refused] == [401, 401]
    assert refused[0].json()["error"]["code"] == "invalid_api_key"


def test_models_and_nothing_else(http: httpx.Client, client: openai.OpenAI) -> None:
    """One model is listed; any other path or method is a 404 in JSON."""
    assert [model.id for model in client.models.list()] == ["loopback"]
    missing = (http.get("/files"), http.get("/chat/completions"), http.delete("/models"), http.post("/embeddings"))
    assert {response.status_code for response in missing} == {404}
    assert all("message" in response.json()["error"] for response in missing)


def test_tool_choice(http: httpx.Client) -> None:
    """`none` hides the tools, a named choice offers that one alone, and one that is not offered is refused."""
    tools: Json = [dict(LOOKUP)]
    named: Json = {"type": "function", "function": {"name": "lookup"}}
    other: Json = {"type": "function", "function": {"name": "other"}}
    replies = [post(http, USER, tools=tools, tool_choice=choice) for choice in ("none", "auto", "required", named)]
    reasons = [reply.json()["choices"][0]["finish_reason"] for reply in replies]
    assert reasons == ["stop", "tool_calls", "tool_calls", "tool_calls"]
    assert post(http, USER, tools=tools, tool_choice=other).status_code == 400
    assert post(http, USER, tool_choice="required").status_code == 400


def test_requests_are_recorded(server: LoopbackServer, http: httpx.Client) -> None:
    """Bodies are kept, refused ones too; the tokens of answered prompts add up, tools and calls included."""
    post(http, USER)
    plain = server.prompt_tokens
    post(http, USER, CALLING)
    assert (plain, server.prompt_tokens) == (1, 1)
    post(http, USER, tools=[dict(LOOKUP)])
    assert server.prompt_tokens > 2 * plain
    assert [len(body["messages"]) for body in server.requests if isinstance(body["messages"], list)] == [1, 2, 1]


def test_many_clients_at_once(server: LoopbackServer) -> None:
    """Requests of several threads are all answered and counted."""

    def ask(number: int) -> str:
        with httpx.Client(base_url=server.base_url, headers={"Authorization": "Bearer loopback"}) as own:
            replies = [post(own, {"role": "user", "content": f"n{number}"}) for _ in range(5)]
        return str(replies[-1].json()["choices"][0]["message"]["content"])

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(ask, range(8)))
    assert said == [f"You said: n{number}" for number in range(8)]
    assert (len(server.requests), server.prompt_tokens) == (40, 40)


def test_a_model_that_fails() -> None:
    """A responder may play a model that is overloaded."""

    def overloaded(request: ChatRequest) -> ChatReply:
        raise ApiError("Slow down.", status=429)

    with (
        LoopbackServer(overloaded) as server,
        openai.OpenAI(base_url=server.base_url, api_key="loopback", max_retries=0) as client,
        pytest.raises(openai.RateLimitError, match="Slow down"),
    ):
        client.chat.completions.create(model="any", messages=[{"role": "user", "content": "Hi"}])


def test_close_leaves_nothing_behind() -> None:
    """After close no thread runs and nobody listens, although a client kept its connection; closing twice is fine."""
    before = set(threading.enumerate())
    server = LoopbackServer(parrot)
    with httpx.Client(base_url=server.base_url, headers={"Authorization": "Bearer loopback"}) as http:
        post(http, USER)
        server.close()
        server.close()
        assert set(threading.enumerate()) <= before
        with pytest.raises(httpx.TransportError):
            post(http, USER)


# The frameworks


@tool
def lookup(city: str) -> str:
    """Look a city up."""
    return f"{city} is fine"


@pytest.fixture
async def chain(server: LoopbackServer) -> AsyncIterator[ChatOpenAI]:
    with httpx.Client() as http:
        async with httpx.AsyncClient() as later:
            yield ChatOpenAI(
                model="any",
                base_url=server.base_url,
                api_key=SecretStr("loopback"),
                max_retries=0,
                http_client=http,
                http_async_client=later,
            )


async def test_langchain_talks(chain: ChatOpenAI) -> None:
    """ChatOpenAI gets the same reply by invoke, stream and their async twins, with usage."""
    reply = chain.invoke("Hello")
    assert reply.content == "You said: Hello"
    assert reply.usage_metadata
    assert reply.usage_metadata["input_tokens"] == 1
    assert "".join(str(chunk.content) for chunk in chain.stream("Hello")) == reply.content
    assert (await chain.ainvoke("Hello")).content == reply.content
    assert "".join([str(chunk.content) async for chunk in chain.astream("Hello")]) == reply.content


async def test_langchain_calls_tools(chain: ChatOpenAI) -> None:
    """Bound tools are called in parallel, plain and streamed, and their results lead to an answer."""
    bound = chain.bind_tools([lookup])
    reply = bound.invoke("Hello")
    assert [call["args"] for call in reply.tool_calls] == [{"city": "奥斯陆"}, {"city": "Bergen"}]
    joined = AIMessageChunk(content="")
    for chunk in bound.stream("Hello"):
        joined += chunk  # type: ignore[assignment]
    assert [call["args"] for call in joined.tool_calls] == [call["args"] for call in reply.tool_calls]
    results = [lookup.invoke(call) for call in reply.tool_calls]
    assert bound.invoke([HumanMessage("Hello"), reply, *results]).content == "You said: Bergen is fine"


async def test_langchain_sees_refusals(chain: ChatOpenAI) -> None:
    """A result cut off from its call makes ChatOpenAI raise the client's BadRequestError."""
    reply = chain.bind_tools([lookup]).invoke("Hello")
    orphan = lookup.invoke(reply.tool_calls[0])
    with pytest.raises(openai.BadRequestError):
        chain.invoke([SystemMessage("Be kind."), orphan, HumanMessage("Hello")])


@pytest.fixture
def llama(server: LoopbackServer) -> Iterator[OpenAILike]:
    with httpx.Client() as http:
        yield OpenAILike(
            model="any",
            api_base=server.base_url,
            api_key="loopback",
            is_chat_model=True,
            is_function_calling_model=True,
            max_retries=0,
            http_client=http,
        )


def test_llamaindex_talks(llama: OpenAILike) -> None:
    """OpenAILike gets the same reply by chat and stream_chat."""
    asked = [ChatMessage(role="user", content="Hello")]
    assert llama.chat(asked).message.content == "You said: Hello"
    assert "".join(part.delta or "" for part in llama.stream_chat(asked)) == "You said: Hello"


def test_llamaindex_calls_tools(llama: OpenAILike) -> None:
    """OpenAILike reads parallel calls with their arguments."""
    found = FunctionTool.from_defaults(lambda city: city, name="lookup", description="Look a city up.")
    response = llama.chat_with_tools([found], user_msg="Hello", allow_parallel_tool_calls=True)
    calls = llama.get_tool_calls_from_response(response)
    assert [call.tool_kwargs for call in calls] == [{"city": "奥斯陆"}, {"city": "Bergen"}]

"""Endpoints on 127.0.0.1 that speak the wire forms of providers, plain and streamed, for the real client libraries.

`with provider_endpoint(reply) as server:` answers a request by `reply(text of the request, number)`; the path of the
request says whose form it has. `chat_model(provider, server.url)` is the client's chat model.
"""

import itertools
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel

from helpers.servers.endpoint_stub import JsonHandler, LocalServer, serving

PROVIDERS = ("openai", "vllm", "responses", "anthropic", "gemini", "bedrock", "ollama")

WHOLE, MARKED, SILENT = "whole", "marked", "silent"
"""How a reply ends: complete, cut with the provider's mark, or cut without a word: a stream by its end, a body by the
connection's."""


class Reply(NamedTuple):
    """A reply of a model: a text, or a call of a tool with the text of its arguments."""

    text: str = ""
    tool: str = ""
    arguments: str = ""
    end: str = WHOLE


AnswerReply = Callable[[str, int], Reply]
"""Function from the text of a request, and its number, to the reply."""


class ProviderEndpoint(LocalServer):
    """The server; `bodies` holds the requests in order."""

    def __init__(self, reply: AnswerReply) -> None:
        super().__init__(_Handler)
        self.reply, self.bodies = reply, list[dict[str, Any]]()
        self.numbers = itertools.count()


@contextmanager
def provider_endpoint(reply: AnswerReply) -> Iterator[ProviderEndpoint]:
    with serving(ProviderEndpoint(reply)) as server:
        yield server


def chat_model(provider: str, url: str) -> BaseChatModel:
    """Create the chat model of a provider's own LangChain package for an endpoint."""
    match provider:
        case "openai" | "vllm" | "responses":
            from langchain_openai import ChatOpenAI

            api: Any = {"api_key": "k", "base_url": f"{url}/v1", "use_responses_api": provider == "responses"}
            return ChatOpenAI(model="vllm" if provider == "vllm" else "m", max_retries=0, **api)
        case "anthropic":
            from langchain_anthropic import ChatAnthropic

            return ChatAnthropic(model="claude-sonnet-4-5", api_key="k", base_url=url, max_retries=0)  # type: ignore[call-arg, arg-type]
        case "gemini":
            from langchain_google_genai import ChatGoogleGenerativeAI

            return ChatGoogleGenerativeAI(model="gemini-2.5-flash", api_key="k", base_url=url, max_retries=1)
        case "bedrock":
            from langchain_aws import ChatBedrockConverse

            keys: Any = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-east-1"}
            return ChatBedrockConverse(model="anthropic.claude-3-5-sonnet-20240620-v1:0", endpoint_url=url, **keys)
        case _:
            from langchain_ollama import ChatOllama

            return ChatOllama(model="m", base_url=url)


class _Handler(JsonHandler):
    server: ProviderEndpoint

    def do_POST(self) -> None:  # noqa: N802
        body = self.read_json()
        self.server.bodies.append(body)
        reply = self.server.reply(json.dumps(body), next(self.server.numbers))
        streamed = "stream" in self.path.lower() or bool(body.get("stream", "api/chat" in self.path))
        match self.path.partition("?")[0].rpartition("/")[2]:
            case "completions":
                mark = "tool_calls" if body["model"] == "vllm" and reply.tool else "length"
                plain, events = openai_reply(reply, mark), sse(openai_events(reply, mark)) + b"data: [DONE]\n\n"
            case "responses":
                plain, events = response_of(reply), sse(response_events(reply))
            case "messages":
                plain, events = anthropic_reply(reply), sse(anthropic_events(reply))
            case "converse" | "converse-stream":
                plain, events = bedrock_reply(reply), b"".join(map(aws_event, bedrock_events(reply)))
            case "chat":
                lines = ollama_lines(reply)
                plain, events = lines[-1], b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            case _:
                plain, events = gemini_reply(reply), sse(gemini_events(reply))
        if not streamed:
            data = json.dumps(plain).encode()
            self.send_part(data, "application/json", len(data) // 2 if reply.end == SILENT else len(data))
            return
        kind = "application/vnd.amazon.eventstream" if "converse" in self.path else "text/event-stream"
        self.send_part(events, kind, len(events))

    def send_part(self, data: bytes, kind: str, most: int) -> None:
        """Send the first bytes of a response. The connection is closed where that is not all of it."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:most])
        self.close_connection = most < len(data)


def sse(events: list[dict[str, Any]]) -> bytes:
    """Write events as server-sent events; those with a type carry it as the name of the event."""
    names = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    return "".join(f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, events, strict=True)).encode()


def partial_json(text: str) -> dict[str, Any]:
    """Return what an endpoint parses of arguments that were cut."""
    try:
        value: dict[str, Any] = json.loads(text)
    except ValueError:
        end = text.rindex(",") if text.count(",") else 1
        value = json.loads(text[:end] + "}")
    return value


# OpenAI's chat completions, which vLLM speaks too.


def openai_reply(reply: Reply, mark: str) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": reply.tool, "arguments": reply.arguments}}
    message = {"role": "assistant", "content": reply.text or None, **({"tool_calls": [call]} if reply.tool else {})}
    finish = {WHOLE: "tool_calls" if reply.tool else "stop", MARKED: mark}.get(reply.end)
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    shared = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    return {**shared, "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}


def openai_events(reply: Reply, mark: str) -> list[dict[str, Any]]:
    whole = openai_reply(reply, mark)
    [choice] = whole["choices"]
    shared = {**whole, "object": "chat.completion.chunk", "usage": None}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in pieces(reply.text)]
    for call in choice["message"].get("tool_calls", ()):
        deltas.append({"tool_calls": [{**call, "index": 0, "function": {"name": reply.tool, "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces(reply.arguments)
        ]
    events = [{**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if reply.end == SILENT:
        return events
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    return [*events, {**shared, "choices": [last]}, {**shared, "choices": [], "usage": whole["usage"]}]


def pieces(text: str) -> list[str]:
    return [text[start : start + 7] for start in range(0, len(text), 7)]


# OpenAI's responses.


def response_of(reply: Reply) -> dict[str, Any]:
    status = "completed" if reply.end == WHOLE else "incomplete"
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": reply.tool, "status": status}
    part = {"type": "output_text", "text": reply.text, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": [part]}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        **{"id": "resp_1", "object": "response", "created_at": 0, "model": "m", "status": status, "error": None},
        **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "metadata": {}},
        "incomplete_details": None if reply.end == WHOLE else {"reason": "max_output_tokens"},
        "output": [{**call, "arguments": reply.arguments} if reply.tool else message],
        "usage": {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14, **details},
    }


def response_events(reply: Reply) -> list[dict[str, Any]]:
    whole = response_of(reply)
    [item] = whole["output"]
    at = {"item_id": item["id"], "output_index": 0}
    begun = {**item, "arguments": ""} if reply.tool else {**item, "content": []}
    started = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": started}]
    events.append({"type": "response.output_item.added", "output_index": 0, "item": begun})
    if reply.tool:
        kind = "response.function_call_arguments.delta"
        events += [{"type": kind, **at, "delta": piece} for piece in pieces(reply.arguments)]
    else:
        at["content_index"] = 0
        empty = {**item["content"][0], "text": ""}
        events.append({"type": "response.content_part.added", **at, "part": empty})
        kind = "response.output_text.delta"
        events += [{"type": kind, **at, "delta": piece, "logprobs": []} for piece in pieces(reply.text)]
    if reply.end != SILENT:
        events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
        events.append({"type": f"response.{whole['status']}", "response": whole})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


# Anthropic's messages.


def anthropic_reply(reply: Reply) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "toolu_1", "name": reply.tool, "input": {}}
    content = {**call, "input": partial_json(reply.arguments)} if reply.tool else {"type": "text", "text": reply.text}
    stop = {WHOLE: "tool_use" if reply.tool else "end_turn", MARKED: "max_tokens"}.get(reply.end)
    shared = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_sequence": None}
    return {
        **shared,
        "content": [content],
        "stop_reason": stop,
        "usage": {"input_tokens": 9, "output_tokens": 5},
    }


def anthropic_events(reply: Reply) -> list[dict[str, Any]]:
    whole = anthropic_reply(reply)
    [block] = whole["content"]
    begun = {**block, "input": {}} if reply.tool else {**block, "text": ""}
    kind, key = ("input_json_delta", "partial_json") if reply.tool else ("text_delta", "text")
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
    ]
    for piece in pieces(reply.arguments or reply.text):
        events.append({"type": "content_block_delta", "index": 0, "delta": {"type": kind, key: piece}})
    if reply.end == SILENT:
        return events
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    ends = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}},
    ]
    return [*events, *ends, {"type": "message_stop"}]


# Google's generateContent. Arguments of a call arrive as one object.


def gemini_reply(reply: Reply) -> dict[str, Any]:
    call = {"functionCall": {"name": reply.tool, "args": partial_json(reply.arguments)}} if reply.tool else {}
    finish = {WHOLE: {"finishReason": "STOP"}, MARKED: {"finishReason": "MAX_TOKENS"}}.get(reply.end, {})
    content = {"role": "model", "parts": [call or {"text": reply.text}]}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14}
    return {"candidates": [{"content": content, "index": 0, **finish}], "usageMetadata": usage}


def gemini_events(reply: Reply) -> list[dict[str, Any]]:
    if reply.tool:
        return [gemini_reply(reply)]
    *first, last = pieces(reply.text)
    begun = [gemini_reply(Reply(text=piece, end=SILENT)) for piece in first]
    return [*begun, gemini_reply(reply._replace(text=last))]


# Bedrock's Converse, whose streams are binary events of AWS.


def bedrock_reply(reply: Reply) -> dict[str, Any]:
    call = {"toolUse": {"toolUseId": "t1", "name": reply.tool, "input": partial_json(reply.arguments or "{}")}}
    content = call if reply.tool else {"text": reply.text}
    return {
        "output": {"message": {"role": "assistant", "content": [content]}},
        "stopReason": "max_tokens" if reply.end != WHOLE else "tool_use" if reply.tool else "end_turn",
        "usage": {"inputTokens": 9, "outputTokens": 5, "totalTokens": 14},
        "metrics": {"latencyMs": 1},
    }


def bedrock_events(reply: Reply) -> list[tuple[str, dict[str, Any]]]:
    whole = bedrock_reply(reply)
    events: list[tuple[str, dict[str, Any]]] = [("messageStart", {"role": "assistant"})]
    if reply.tool:
        begun = {"toolUse": {"toolUseId": "t1", "name": reply.tool}}
        events.append(("contentBlockStart", {"start": begun, "contentBlockIndex": 0}))
    for piece in pieces(reply.arguments or reply.text):
        delta = {"toolUse": {"input": piece}} if reply.tool else {"text": piece}
        events.append(("contentBlockDelta", {"delta": delta, "contentBlockIndex": 0}))
    if reply.end == SILENT:
        return events
    return [
        *events,
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": whole["stopReason"]}),
        ("metadata", {"usage": whole["usage"], "metrics": whole["metrics"]}),
    ]


def aws_event(event: tuple[str, dict[str, Any]]) -> bytes:
    """Write an event as AWS does: lengths, their checksum, headers, content, checksum of all."""
    name, content = event
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    head = b"".join(
        struct.pack("!B", len(key)) + key.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for key, value in headers.items()
    )
    payload = json.dumps(content).encode()
    prelude = struct.pack("!II", len(head) + len(payload) + 16, len(head))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return message + struct.pack("!I", zlib.crc32(message))


# Ollama's chat, a line for each piece. Arguments of a call arrive as one object.


def ollama_lines(reply: Reply) -> list[dict[str, Any]]:
    shared = {"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": False}
    call = {"function": {"name": reply.tool, "arguments": partial_json(reply.arguments)}} if reply.tool else {}
    parts: list[dict[str, Any]] = [{"content": "", "tool_calls": [call]}] if call else []
    parts += [{"content": piece} for piece in pieces(reply.text)]
    lines = [{**shared, "message": {"role": "assistant", **part}} for part in parts]
    if reply.end == SILENT:
        return lines
    counts = {"prompt_eval_count": 9, "eval_count": 5, "total_duration": 1, "eval_duration": 1}
    mark = "stop" if reply.end == WHOLE else "length"
    last = {**shared, "done": True, "done_reason": mark, "message": {"role": "assistant", "content": ""}, **counts}
    return [*lines, last]

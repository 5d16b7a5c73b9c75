"""What to do with an answer that a decode engine gives back unfinished.

vllm-ascend's recompute scheduler has no local prefill to fall back on: when KV memory runs out it ends a request with
`stop_reason: "recomputed"` and expects the router to send it again. Before any text has gone out the original body is
sent again. Afterwards the text so far becomes part of the prompt, for the forms of requests where that gives the same
answer; for all others there is no continuation, and the stream ends with an error. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvpool_router.rewrite import Body, edit, sequences

_MARK = b'"recomputed"'
_END = b"\n\n"
_COMPLETIONS_DEFAULT_TOKENS = 16  # OpenAI's default, which vLLM keeps for /v1/completions alone

# With any of these the second half of an answer cannot be joined to the first.
_UNJOINABLE = (
    "echo", "guided_choice", "guided_grammar", "guided_json", "guided_regex", "logprobs", "prompt_logprobs",
    "response_format", "structured_outputs", "tools", "top_logprobs", "continue_final_message",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Emitted:
    """What a client has received of a stream: text and tokens, or `joinable` False when it is more than text."""

    text: str
    tokens: int
    joinable: bool


def given_back(data: bytes) -> bool:
    """Whether an answer's body, or any of its events, says that the request was given back."""
    if _MARK not in data:
        return False
    return any(_says_so(document) for document in _documents(data))


def split(data: bytes) -> tuple[bytes, bytes]:
    """Complete events, and the beginning of the next one."""
    head, end, tail = data.rpartition(_END)
    return head + end, tail


def before(data: bytes) -> bytes:
    """The events before the one that gives the request back."""
    kept = b""
    for event in data.split(_END):
        if given_back(event):
            break
        kept += event + _END
    return kept


def emitted(events: bytes) -> Emitted:
    """What these events have told the client."""
    text, tokens, joinable = "", 0, True
    for document in _documents(events):
        for choice in document.get("choices") or ():
            delta = choice.get("delta")
            piece = choice.get("text") if delta is None else delta.get("content")
            extra = {key for key, value in (delta or {}).items() if value} - {"role", "content"}
            joinable = joinable and not extra and choice.get("index", 0) == 0
            text += piece or ""
            tokens += bool(piece)
        tokens = int((document.get("usage") or {}).get("completion_tokens") or tokens)
    return Emitted(text, tokens, joinable)


def continuation(body: Body, so_far: Emitted) -> bytes | None:
    """The body that asks for the rest of the answer; None where no body would."""
    if so_far.joinable and not so_far.text:
        return body.raw
    if not so_far.joinable or sequences(body) != 1 or any(body.get(key) for key in _UNJOINABLE):
        return None
    changes: dict[str, str | None] = {}
    messages, prompt = body.find("messages"), body.get("prompt")
    if messages is not None and isinstance(messages.value, list) and messages.value:
        turn = json.dumps({"role": "assistant", "content": so_far.text})
        changes["messages"] = messages.value_text.rstrip()[:-1] + "," + turn + "]"
        changes |= {"add_generation_prompt": "false", "continue_final_message": "true"}
    elif isinstance(prompt, str):
        changes["prompt"] = json.dumps(prompt + so_far.text)
        if body.get("max_tokens") is None:
            changes["max_tokens"] = str(max(1, _COMPLETIONS_DEFAULT_TOKENS - so_far.tokens))
    else:
        return None
    for key, least in (("max_tokens", 1), ("max_completion_tokens", 1), ("min_tokens", 0)):
        limit = body.get(key)
        if isinstance(limit, int) and not isinstance(limit, bool):
            changes[key] = str(max(least, limit - so_far.tokens))
    return edit(body, changes)


def _documents(data: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a body or of server-sent events; what is no JSON object is passed over."""
    for line in data.split(b"\n"):
        try:
            document = json.loads(line.removeprefix(b"data:"))
        except ValueError:
            continue
        if isinstance(document, dict):
            yield document


def _says_so(document: dict[str, Any]) -> bool:
    choices = document.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and "recomputed" in (choice.get("stop_reason"), choice.get("finish_reason"))
        for choice in choices
    )

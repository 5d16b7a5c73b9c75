"""Edits of request bodies that keep the text of everything they do not own.

Parsing a body and dumping it again would change numbers (1.1 in other number types, 1e2, big integers), escapes and
duplicate members. Here only the top level is split into members; each keeps the exact text the client wrote, and the
few members a leg owns are replaced, removed or appended as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


class BadBody(ValueError):
    """A request body that is no JSON object; the message is fit for the client."""


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of the top level: the text as written, where its value starts in it, and the value."""

    key: str
    text: str
    value_offset: int
    value: Any

    @property
    def value_text(self) -> str:
        """The value exactly as the client wrote it."""
        return self.text[self.value_offset :]


@dataclass(frozen=True, slots=True)
class Body:
    """A JSON object split into its members; duplicates are kept, the last one counts, as in vLLM."""

    raw: bytes
    members: tuple[Member, ...]

    def find(self, key: str) -> Member | None:
        """The member that counts for `key`."""
        return next((m for m in reversed(self.members) if m.key == key), None)

    def get(self, key: str) -> Any:
        """The value that counts for `key`; None when absent."""
        member = self.find(key)
        return None if member is None else member.value


def parse(raw: bytes) -> Body:
    """Split a body into its members; raises BadBody for anything but one JSON object in UTF-8."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadBody(f"The request body is not UTF-8: {error.reason} at byte {error.start}.") from error
    return Body(raw, _members(text))


def _members(text: str) -> tuple[Member, ...]:
    at = _skip(text, 0)
    if not text[at:]:
        raise BadBody("The request body is empty; a JSON object is expected.")
    if text[at] != "{":
        _value(text, at)
        raise BadBody("The request body must be a JSON object.")
    members: list[Member] = []
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        at += 1
    else:
        more = True
        while more:
            at, more = _member(text, at, members)
    rest = _skip(text, at)
    if rest != len(text):
        raise BadBody(f"The request body has extra text after the JSON object, at character {rest}.")
    return tuple(members)


def _member(text: str, start: int, members: list[Member]) -> tuple[int, bool]:
    """Append the member that starts at `start`; return where the next one starts and whether there is one."""
    if text[start : start + 1] != '"':
        raise BadBody(f"Broken JSON: a member name in double quotes is expected at character {start}.")
    key, at = _value(text, start)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise BadBody(f"Broken JSON: ':' is expected at character {at}.")
    value_start = _skip(text, at + 1)
    value, end = _value(text, value_start)
    members.append(Member(key, text[start:end], value_start - start, value))
    at = _skip(text, end)
    mark = text[at : at + 1]
    if mark not in (",", "}") or not mark:
        raise BadBody(f"Broken JSON: ',' or '}}' is expected at character {at}.")
    return (_skip(text, at + 1), True) if mark == "," else (at + 1, False)


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise BadBody(f"Broken JSON: {error.msg} at character {error.pos}.") from error
    except (ValueError, RecursionError) as error:
        raise BadBody("Broken JSON: a number is too long or the nesting too deep.") from error


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def edit(body: Body, changes: Mapping[str, str | None]) -> bytes:
    """The body with the members in `changes` set to the given JSON text, or removed where it is None."""
    if not changes:
        return body.raw
    pieces: list[str] = []
    pending = dict(changes)
    for member in reversed(body.members):
        if member.key not in changes:
            pieces.append(member.text)
            continue
        replacement = pending.pop(member.key, None)
        if replacement is not None:
            pieces.append(member.text[: member.value_offset] + replacement)
    pieces.reverse()
    pieces.extend(f"{json.dumps(key)}:{text}" for key, text in pending.items() if text is not None)
    return ("{" + ",".join(pieces) + "}").encode("utf-8", "surrogatepass")


# What the prefill leg must not ask for: it answers once, with one token, and nobody reads the text.
# `echo` and `prompt_logprobs` also make vLLM skip its prefix cache, and with it the pool.
_PREFILL_REMOVES = ("stream_options", "echo", "prompt_logprobs")
_PREFILL_SETS_IF_PRESENT = ("max_completion_tokens", "n", "best_of")


def prefill_changes(body: Body) -> dict[str, str | None]:
    """The edits that turn a client's body into the prefill leg's."""
    changes: dict[str, str | None] = {"max_tokens": "1", "stream": "false"}
    changes |= {key: None for key in _PREFILL_REMOVES if body.find(key)}
    changes |= {key: "1" for key in _PREFILL_SETS_IF_PRESENT if body.find(key)}
    minimum = body.get("min_tokens")
    if isinstance(minimum, int | float) and minimum > 1:
        changes["min_tokens"] = "1"
    return changes


# MooncakeConnectorV1: the decode side reads the blocks that the prefill side keeps for it.
_REMOTE_DECODE: dict[str, str | None] = {
    "do_remote_decode": "true",
    "do_remote_prefill": "false",
    "remote_engine_id": "null",
    "remote_block_ids": "null",
    "remote_host": "null",
    "remote_port": "null",
}
TRANSFER = "kv_transfer_params"


def prefill_body(body: Body, *, transfer: bool) -> bytes:
    """The prefill leg's body; `transfer` asks the engine to keep the blocks for a peer (P2P)."""
    changes = prefill_changes(body)
    if transfer:
        own = _object_text(body.find(TRANSFER))
        changes[TRANSFER] = edit(own, _REMOTE_DECODE).decode("utf-8", "surrogatepass")
    return edit(body, changes)


def decode_body(body: Body, prefill_answer: bytes) -> bytes | None:
    """The decode leg's body of a P2P pair, or None when the answer carries no transfer parameters.

    The answer's object is passed with its text untouched. Members that only the client sent in its own
    `kv_transfer_params` (`kv_priority`) follow it, so that both sides see them.
    """
    try:
        answer = parse(prefill_answer).find(TRANSFER)
    except BadBody:
        return None
    if answer is None or not isinstance(answer.value, dict) or not answer.value:
        return None
    handed = _object_text(answer)
    own = _object_text(body.find(TRANSFER))
    extra: dict[str, str | None] = {
        m.key: m.value_text for m in own.members if not _is_remote(m.key) and handed.find(m.key) is None
    }
    text = edit(handed, extra).decode("utf-8", "surrogatepass")
    return edit(body, {TRANSFER: text})


def without_remote(body: Body) -> bytes:
    """The body without what only a router may say about remote blocks; unchanged where the client said nothing."""
    own = _object_text(body.find(TRANSFER))
    remote: dict[str, str | None] = {m.key: None for m in own.members if _is_remote(m.key)}
    if not remote:
        return body.raw
    return edit(body, {TRANSFER: edit(own, remote).decode("utf-8", "surrogatepass")})


def _is_remote(key: str) -> bool:
    return key.startswith(("remote_", "do_remote_"))


def _object_text(member: Member | None) -> Body:
    """A member's value as an editable object; an empty one when it is absent or no object."""
    if member is None or not isinstance(member.value, dict):
        return Body(b"{}", ())
    return parse(member.value_text.encode("utf-8", "surrogatepass"))


def sequences(body: Body) -> int:
    """How many sequences the engine will run for this body; wrong types count as one, the engine will refuse them."""
    prompt = body.get("prompt")
    prompts = len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1
    wanted = [v for key in ("n", "best_of") if isinstance(v := body.get(key), int) and not isinstance(v, bool)]
    return max(1, prompts) * max([1, *wanted])

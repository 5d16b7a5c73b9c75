"""Every reason a condition can carry. They are API: users and alerts match on them; docs/reasons.md comes from here."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A reason and, in its docstring-like second value, what it means."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Reason:
        """Keep the meaning beside the value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    AVAILABLE = ("Available", "Everything the spec asks for is running and ready.")
    PROGRESSING = ("Progressing", "Children are being written or pods are not ready yet; the message names them.")
    PAUSED = ("Paused", "spec.paused is set: nothing is written until it is cleared.")
    SCALED_TO_ZERO = ("ScaledToZero", "A role has no replicas, so the group cannot answer; scale it up to serve.")
    AS_DESIRED = ("AsDesired", "Nothing to report for this condition.")
    POOL_NOT_FOUND = ("PoolNotFound", "spec.poolRef names a KVPool that does not exist.")
    POOL_STALLED = ("PoolStalled", "The pool that spec.poolRef names has an invalid spec itself; mend it first.")
    NAMESPACE_NOT_ALLOWED = ("NamespaceNotAllowed", "The pool's allowedNamespaces does not include this namespace.")
    UNKNOWN_RELEASE = ("UnknownRelease", "The release is in no table of this operator version.")
    UNSUPPORTED_HARDWARE = ("UnsupportedHardware", "The series has no such link.")
    CONNECTOR_UNSUPPORTED = ("ConnectorUnsupported", "The engine release or the hardware does not carry the connector.")
    UNSUPPORTED_COMBINATION = ("UnsupportedCombination", "Two fields contradict each other; the message names both.")
    MISALIGNED_SEGMENT = ("MisalignedSegment", "The segment is not a whole multiple of what the hardware needs.")
    MANAGED_ENV = ("ManagedVariable", "A variable that the pool or the hardware decides is set by hand.")
    MANAGED_ARGUMENT = ("ManagedArgument", "An engine argument that the operator renders is set by hand.")
    FOREIGN_OBJECT = ("ForeignObject", "An object with a child's name belongs to someone else; it is left alone.")
    INVALID_SPEC = ("InvalidSpec", "The API server refused a child; the message is its answer.")
    RENDERING_CHANGED = (
        "RenderingChanged",
        "This operator version would render the pods differently; nothing restarts for it.",
    )

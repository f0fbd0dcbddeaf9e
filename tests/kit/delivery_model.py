"""What delivering means, in little: queues of messages, each sent by its holder, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

LEASE = 60.0


@dataclass
class ModelQueue:
    """The pending messages of one asset for one target, the first one first."""

    pending: list[str] = field(default_factory=list)
    next_at: float = 0.0
    holder: int | None = None
    lease_until: float = 0.0


@dataclass
class Model:
    """`now` is the clock; who is not in `living` has died. `done` says what became of each message."""

    now: float = 0.0
    living: set[int] = field(default_factory=set)
    queues: dict[tuple[str, str], ModelQueue] = field(default_factory=dict)
    held_until: dict[str, float] = field(default_factory=dict)
    done: dict[str, str] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def enqueue(self, target: str, asset: str, message: str) -> bool:
        if message in self.known:
            return False
        self.known.add(message)
        self.failures[message] = 0
        queue = self.queues.setdefault((target, asset), ModelQueue())
        if not queue.pending:
            queue.next_at = self.now
        queue.pending.append(message)
        return True

    def free(self) -> set[tuple[str, str]]:
        """The queues that may be claimed now."""
        return {
            name
            for name, queue in self.queues.items()
            if queue.pending
            and queue.next_at <= self.now
            and self.held_until.get(name[0], 0.0) <= self.now
            and (queue.holder not in self.living or queue.lease_until <= self.now)
        }

    def claim(self, holder: int, name: tuple[str, str]) -> None:
        self.queues[name].holder, self.queues[name].lease_until = holder, self.now + LEASE

    def finish(self, name: tuple[str, str], message: str, status: str) -> None:
        queue = self.queues[name]
        if message in queue.pending:
            queue.pending.remove(message)
            self.done[message] = status

    def postpone(self, holder: int, name: tuple[str, str], message: str, pause: float) -> None:
        queue = self.queues[name]
        if message in queue.pending:
            self.failures[message] += 1
        if queue.holder == holder:
            queue.holder, queue.next_at = None, self.now + pause

    def release(self, holder: int, name: tuple[str, str]) -> None:
        if self.queues[name].holder == holder:
            self.queues[name].holder = None

"""Who has applied what: a client and the server agree about it, whatever is lost, doubled or started again.

    version    names one round of one start of the server; it grows, and no two rounds ever share one
    head       the last version whose delta of this client is in the server's state; START before the first
    state      what a client keeps as of a head: its factor is the one that the server has multiplied in
    pending    what a client has found in a version, with the head that it started from; not yet known to be applied

Every message names the client's head in the server's history, with r of that version. The client takes the state of
that head: the one that it holds, or the pending one, completed with r. So a delta counts at the client exactly when it
counts at the server, and nothing that the client believes on its own matters. A server that goes back to a checkpoint
names an older head; so a client keeps the states of all heads in checkpoints that the server may go back to.
docs/protocol.md argues why that is enough.
"""
from typing import Any, NamedTuple

START = 0
_ROUND_BITS = 24


def version_of(generation, number):
    """The version of a round; `generation` counts the starts of a server and never falls."""
    return generation << _ROUND_BITS | number


class AgreementError(Exception):
    """A message that a client must not act on."""


class StaleMessageError(AgreementError):
    """An older message than one that was answered already."""


class LostStateError(AgreementError):
    """The server's history has a delta of this client that the client itself has lost."""


class Order(NamedTuple):
    """What a message says about the agreement."""
    version: int       # of the round that the message opens
    head: int
    shrink: Any        # r of the head
    keep: tuple        # heads that the server may go back to


class Pending(NamedTuple):
    base: int          # head that the training started from
    content: Any


class Shelf:
    """What a client holds, in memory; `START` needs no place, as anyone can make that state again."""

    def __init__(self, make_start):
        self._make_start = make_start
        self._states, self._pending, self._last = {}, {}, START

    def last(self):
        """The newest version that was ordered."""
        return self._last

    def state(self, version):
        """None where there is none."""
        return self._make_start() if version == START else self._states.get(version)

    def pending(self, version):
        return self._pending.get(version)

    def put_state(self, version, state):
        self._states[version] = state

    def put_pending(self, version, pending):
        self._pending[version] = pending

    def agree(self, version):
        self._last = version

    def keep(self, versions):
        """Forgets all but these versions, and the states that pending ones among them start from."""
        self._pending = {version: pending for version, pending in self._pending.items()
                         if version in versions and version not in self._states}
        needed = {*versions, *(pending.base for pending in self._pending.values())}
        self._states = {version: state for version, state in self._states.items() if version in needed}


def reconcile(shelf, order, commit):
    """Brings a client's shelf to what the server has applied and returns the state there.

    commit(state, content of the pending one, r) → state. Every step may be the last before a crash: the message, or any
    newer one, then finds a shelf that has all it needs.
    """
    if order.version < shelf.last():
        raise StaleMessageError(f'version {order.version} was ordered before version {shelf.last()}')
    state = shelf.state(order.head)
    if state is None:
        pending = shelf.pending(order.head)
        if pending is None:
            raise LostStateError(f'the server has applied version {order.head} of this client, which is not here')
        state = commit(shelf.state(pending.base), pending.content, order.shrink)
        shelf.put_state(order.head, state)
    shelf.agree(order.version)
    shelf.keep({order.version, order.head, *order.keep})
    return state


class Ledger:
    """The server's side: the head of each client and r of it, now and in the checkpoints that it may go back to."""

    def __init__(self):
        self._heads, self._shrinks, self._kept = {}, {}, ()

    def order(self, client, version):
        """The Order of a message to a client."""
        head = self._heads.get(client, START)
        keep = {manifest.get(client, START) for manifest in self._kept}
        return Order(version, head, self._shrinks.get(head), tuple(sorted(keep - {head})))

    def applied(self, clients, version, shrink):
        """The deltas of these clients are in the server's state, as of a version that shrank them by r."""
        if clients:
            self._shrinks[version] = shrink
        self._heads |= dict.fromkeys(clients, version)
        self._forget()

    def contributors(self):
        """Clients of whom a delta is in the server's state."""
        return sorted(self._heads)

    def save(self):
        """The manifest of a checkpoint: {client: head}"""
        return dict(self._heads)

    def keep(self, manifests):
        """The server may go back to these manifests, and to no others."""
        self._kept = tuple(manifests)
        self._forget()

    def restore(self, manifest, kept):
        """Goes back to one manifest; the `kept` ones stay possible."""
        self._heads, self._kept = dict(manifest), (manifest, *kept)

    def _forget(self):
        needed = {*self._heads.values(), *(head for manifest in self._kept for head in manifest.values())}
        self._shrinks = {version: shrink for version, shrink in self._shrinks.items() if version in needed}

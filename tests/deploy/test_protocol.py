"""A model of the network: messages and replies are lost, doubled, late and reordered, and either side starts again.

States are whole numbers, and a delta enters as r·Δ, so that posterior = Σ factors is exact or wrong.
"""
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from virtual_tf.deploy import protocol
from virtual_tf.deploy.protocol import START, Ledger, Order, Pending, Shelf, reconcile, version_of

CLIENTS, KEPT = 2, 3
FATES = ('absent', 'applied', 'applied', 'applied', 'message late', 'reply lost', 'reply late',
         'message twice', 'crash')


def commit(state, delta, shrink):
    return state + shrink * delta


class CrashError(Exception):
    """The client's process has ended."""


class CrashingShelf(Shelf):
    """Ends the process after so many writes."""
    writes_left = None

    def _write(self):
        if self.writes_left == 0:
            raise CrashError
        if self.writes_left is not None:
            self.writes_left -= 1

    def put_state(self, version, state):
        self._write()
        super().put_state(version, state)

    def put_pending(self, version, pending):
        self._write()
        super().put_pending(version, pending)

    def agree(self, version):
        self._write()
        super().agree(version)

    def keep(self, versions):
        self._write()
        super().keep(versions)


class Network(RuleBasedStateMachine):
    """The server's posterior is a number that starts as the sum of the clients' factors."""

    def __init__(self):
        super().__init__()
        self.shelves = [CrashingShelf(lambda i=i: 10 ** i) for i in range(CLIENTS)]
        self.deltas = 0
        self.ledger, self.posterior = Ledger(), sum(10 ** i for i in range(CLIENTS))
        self.generation, self.round, self.open = 1, 0, None
        self.checkpoints = {0: (self.posterior, {}, {})}
        self.down, self.up = [], []      # messages on their way: (client, Order), (client, version, delta)

    def client_answers(self, client, order):
        """The whole client: reconcile, train, keep what was found, reply."""
        shelf = self.shelves[client]
        try:
            reconcile(shelf, order, commit)
            found = shelf.pending(order.version)
            if found is None:
                self.deltas += 1
                found = Pending(order.head, 1000 ** self.deltas)     # so that no sum of deltas equals another
                shelf.put_pending(order.version, found)
        except CrashError:
            return
        except protocol.StaleMessageError:
            return
        self.up.append((client, order.version, found.content))

    def close_round(self, shrink):
        """What was gathered is applied, all at once, and the round is over."""
        self.posterior += sum(shrink * delta for delta in self.gathered.values())
        self.ledger.applied(list(self.gathered), self.open, shrink)
        self.open = None

    @precondition(lambda self: self.open is None)
    @rule(fates=st.tuples(*[st.sampled_from(FATES)] * CLIENTS), writes=st.integers(0, 3), shrink=st.integers(1, 3),
          checkpoint=st.booleans())
    def whole_round(self, fates, writes, shrink, checkpoint):
        """What the other rules do one by one; alone they seldom get far."""
        self.server_opens_round({client for client, fate in enumerate(fates) if fate != 'absent'})
        late = []
        for client, order in [self.down.pop() for _ in self.chosen]:
            if fates[client] == 'message late':
                late.append((client, order))
                continue
            self.shelves[client].writes_left = writes if fates[client] == 'crash' else None
            before = len(self.up)
            self.client_answers(client, order)
            self.shelves[client].writes_left = None
            if fates[client] == 'message twice':
                self.client_answers(client, order)
            replies, self.up = self.up[before:], self.up[:before]
            if fates[client] == 'reply late':
                self.up += replies
            elif fates[client] in ('applied', 'message twice'):
                self.gathered |= {client: delta for client, _, delta in replies[:1]}
        self.down += late
        self.close_round(shrink)
        if checkpoint:
            self.server_writes_checkpoint()

    @precondition(lambda self: self.open is None)
    @rule(chosen=st.sets(st.integers(0, CLIENTS - 1), min_size=1))
    def server_opens_round(self, chosen):
        self.round += 1
        self.open = version_of(self.generation, self.round)
        self.gathered, self.chosen = {}, chosen
        self.down += [(client, self.ledger.order(client, self.open)) for client in chosen]

    @precondition(lambda self: self.open is not None)
    @rule(shrink=st.integers(1, 3))
    def server_closes_round(self, shrink):
        self.close_round(shrink)

    @precondition(lambda self: self.down)
    @rule(data=st.data(), twice=st.booleans(), writes=st.none() | st.integers(0, 4))
    def message_arrives(self, data, twice, writes):
        position = data.draw(st.integers(0, len(self.down) - 1))
        client, order = self.down[position] if twice else self.down.pop(position)
        self.shelves[client].writes_left = writes
        self.client_answers(client, order)
        self.shelves[client].writes_left = None

    @precondition(lambda self: self.up)
    @rule(data=st.data(), twice=st.booleans(), refused=st.booleans())
    def reply_arrives(self, data, twice, refused):
        position = data.draw(st.integers(0, len(self.up) - 1))
        client, version, delta = self.up[position] if twice else self.up.pop(position)
        if version == self.open and client in self.chosen and client not in self.gathered and not refused:
            self.gathered[client] = delta

    @precondition(lambda self: self.down or self.up)
    @rule(data=st.data())
    def something_is_lost(self, data):
        queue = data.draw(st.sampled_from([queue for queue in (self.down, self.up) if queue]))
        queue.pop(data.draw(st.integers(0, len(queue) - 1)))

    @precondition(lambda self: self.open is None)
    @rule()
    def server_writes_checkpoint(self):
        self.checkpoints[self.round] = self.posterior, self.ledger.save(), dict(self.ledger._shrinks)
        for old in sorted(self.checkpoints)[:-KEPT]:
            del self.checkpoints[old]
        self.ledger.keep([manifest for _, manifest, _ in self.checkpoints.values()])

    @rule(data=st.data())
    def server_starts_again(self, data):
        """From any checkpoint there is, also one that is not the newest."""
        self.round = data.draw(st.sampled_from(sorted(self.checkpoints)))
        self.posterior, manifest, shrinks = self.checkpoints[self.round]
        self.ledger = Ledger()
        self.ledger.restore(manifest, [other for _, other, _ in self.checkpoints.values()])
        self.ledger._shrinks = {version: shrink for _, _, stored in self.checkpoints.values()
                                for version, shrink in stored.items()} | shrinks
        self.generation, self.open = self.generation + 1, None

    @invariant()
    def next_messages_would_agree(self):
        """Were every client told of the next round now, posterior = Σ factors would hold, and nothing counts twice."""
        version = version_of(self.generation, self.round + 1)
        factors = []
        for client, shelf in enumerate(self.shelves):
            copy = Shelf(shelf._make_start)
            copy._states, copy._pending, copy._last = dict(shelf._states), dict(shelf._pending), shelf._last
            factors.append(reconcile(copy, self.ledger.order(client, version), commit))
        assert sum(factors) == self.posterior

    @invariant()
    def little_is_kept(self):
        for shelf in self.shelves:
            # Of each checkpoint a head, or the pending one and its base; the newest ones; what a crash left to sweep.
            assert len(shelf._states) <= 2 * KEPT + 2 and len(shelf._pending) <= KEPT + 2


Network.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None,
                                     phases=(Phase.reuse, Phase.generate))
TestNetwork = Network.TestCase


def test_a_client_that_lost_its_state_says_so():
    with pytest.raises(protocol.LostStateError, match='not here'):
        reconcile(Shelf(lambda: 0), Order(version_of(1, 5), version_of(1, 4), 1, ()), commit)


def test_an_order_from_before_is_refused_and_changes_nothing():
    shelf = Shelf(lambda: 0)
    reconcile(shelf, Order(version_of(2, 1), START, None, ()), commit)
    shelf.put_pending(version_of(2, 1), Pending(START, 7))
    with pytest.raises(protocol.StaleMessageError):
        reconcile(shelf, Order(version_of(1, 9), START, None, ()), commit)
    assert reconcile(shelf, Order(version_of(2, 2), version_of(2, 1), 1, ()), commit) == 7


def test_what_a_kept_pending_one_starts_from_is_kept_too():
    shelf, versions = Shelf(lambda: 1), [version_of(generation, 1) for generation in range(1, 6)]
    reconcile(shelf, Order(versions[0], START, None, ()), commit)
    shelf.put_pending(versions[0], Pending(START, 10))
    reconcile(shelf, Order(versions[1], versions[0], 1, ()), commit)
    shelf.put_pending(versions[1], Pending(versions[0], 100))
    # The server went back to before all that, and may yet return to the checkpoint in which versions[1] is the head.
    reconcile(shelf, Order(versions[2], START, None, (versions[1],)), commit)
    assert reconcile(shelf, Order(versions[3], versions[1], 1, ()), commit) == 1 + 10 + 100


def test_versions_grow_with_starts_and_rounds():
    assert START < version_of(1, 1) < version_of(1, 2) < version_of(1, 10 ** 6) < version_of(2, 1)

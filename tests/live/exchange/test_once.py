"""One decision counts once: any messages, kills, cuts and copies put back, against a ledger.

Every part of a decision adds a digit of its own in base four, so that the sum of an arm says which
parts are in it, and a part that counted twice shows as a digit of two.
"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from posse.live.ledger import PER_UNIT
from tests.live.exchange.machine import play
from tests.live.exchange.origins import agent, link, save, start

WIDE = (2.0**11, 2.0**11, 1.0, 1.0)  # reward, closed reward, closed count, count
PER_ARM = 8  # decisions; two digits each, of which one may not be above the bounds
ANY = st.integers(0, 10_000)
WINDOW = 500.0  # seconds


def parts_of(nth):
    """The arm of a decision, the number of its start and that of its reward."""
    digit = 16 ** (nth % PER_ARM)
    return f"arm{nth // PER_ARM}", digit, 4 * digit


def read_digits(evidence):
    """What a sum is made of: decision -> (rewarded, closed or None); no part may be there twice."""
    decisions = {}
    for arm, (reward, closed_reward, closed_count, count) in evidence.items():
        for place in range(PER_ARM):
            here, after = reward >> 4 * place & 15, closed_reward >> 4 * place & 15
            assert here in (0, 1, 5), f"{arm}: a part counts twice or without its decision"
            assert after in (0, here), f"{arm}: closed is not what it was"
            if here:
                decisions[int(arm[3:]) * PER_ARM + place] = here == 5, bool(after)
        of_arm = [state for nth, state in decisions.items() if parts_of(nth)[0] == arm]
        assert count == len(of_arm) * PER_UNIT
        assert closed_count == sum(closed for _, closed in of_arm) * PER_UNIT
    return decisions


class Disk:
    """What a process of "me" leaves behind: the parts of its exchange, and its open decisions."""

    def __init__(self, parts, opened):
        self.parts, self.open = parts, dict(opened)


class Copies(RuleBasedStateMachine):
    """One agent whose disk is copied and put back, and two neighbours that keep theirs."""

    @initialize(
        copies=st.booleans(), from_start=st.booleans(), folds=st.booleans(), grace=st.booleans()
    )
    def begin(self, copies, from_start, folds, grace):
        self.now, self.decisions, self.network = 1000.0, 0, []
        self.copies_allowed, self.from_start, self.folds = copies, from_start, folds
        self.all_are_asked, self.grace = not grace, 3 if grace else 10**6
        self.friends = {name: self.tune(self.make(name)) for name in ("left", "right")}
        self.me = self.tune(self.make("me"))
        self.processes = {**self.friends, "me": self.me}
        link(*self.processes.values())
        self.truth = {}  # decision -> (rewarded, closed), of all that was acknowledged
        self.ever = {}  # decision -> all states that were acknowledged, by any copy of the disk
        self.open = {}  # decision -> (incarnation, rewarded)
        self.cut, self.copies, self.refused = set(), [], set()
        self.seen_closed, self.covers, self.set_back = {}, set(), False
        for process in self.processes.values():
            save(process)

    def acknowledge(self, nth, rewarded, closed):
        self.truth[nth] = rewarded, closed
        self.ever.setdefault(nth, set()).add((rewarded, closed))

    def make(self, name):
        return agent(name, **self.options())

    @staticmethod
    def options():
        return {"fingerprint": "f", "bounds": WIDE, "closed": 1, "digest_every": 2, "batch": 2}

    def tune(self, process):
        process.reward_window, process.grace_ticks = WINDOW, self.grace
        process.longest_rest = 10 * self.grace
        process.compaction.every, process.compaction.fold_above = 1, 1
        return process

    def commit(self):
        save(self.me)

    # ---- what visitors do

    @rule()
    def decide(self):
        nth, self.decisions = self.decisions, self.decisions + 1
        arm, digit, _ = parts_of(nth)
        incarnation = self.me.begin_decision(arm)
        if self.from_start:
            self.me.observe(arm, (digit, 0, 0, PER_UNIT), incarnation)
            self.acknowledge(nth, False, False)
        self.open[nth] = incarnation, False
        self.commit()

    @precondition(lambda self: self.open)
    @rule(which=ANY)
    def reward(self, which):
        nth = list(self.open)[which % len(self.open)]
        incarnation, rewarded = self.open[nth]
        if self.me.is_superseded(incarnation):
            self.refused.add(nth)
            assert self.set_back, "refused without a fault"
        elif not rewarded:
            arm, digit, more = parts_of(nth)
            if self.from_start:
                self.me.observe(arm, (more, 0, 0, 0), incarnation)
                self.open[nth] = incarnation, True
                self.acknowledge(nth, True, False)
            else:
                both = digit + more
                self.me.observe(arm, (both, both, PER_UNIT, PER_UNIT), incarnation)
                self.acknowledge(nth, True, True)
                del self.open[nth]
        self.commit()

    @precondition(lambda self: self.open)
    @rule(which=ANY)
    def close(self, which):
        """The window ends; what is superseded closes without evidence."""
        nth = list(self.open)[which % len(self.open)]
        incarnation, rewarded = self.open.pop(nth)
        if self.me.is_superseded(incarnation):
            assert self.set_back
        elif self.from_start:
            arm, digit, more = parts_of(nth)
            self.me.observe(arm, (0, digit + more * rewarded, PER_UNIT, 0), incarnation)
            self.acknowledge(nth, rewarded, True)
        self.commit()

    # ---- what the network does

    @rule(who=st.sampled_from(["me", "me", "left", "right"]))
    def tick(self, who):
        self.now += 1.0
        process = self.processes[who]
        outgoing = process.tick(self.now)
        if self.folds and process.needs_compaction():
            process.compact({incarnation for incarnation, _ in self.open.values()})
        save(process)
        self.network += [(who, *sent) for sent in outgoing]

    @precondition(lambda self: self.network)
    @rule(which=ANY, repeat=st.booleans(), lose=st.booleans())
    def deliver(self, which, repeat, lose):
        at = which % len(self.network)
        source, target, said = self.network[at] if repeat else self.network.pop(at)
        if (lose and repeat) or (source in self.cut) != (target in self.cut):
            return
        process = self.processes[target]
        answers = process.receive(source, said, self.now)
        save(process)
        self.network += [(target, *answer) for answer in answers]

    @rule()
    def deliver_all(self):
        for _ in range(1000):
            if not self.network:
                return
            self.deliver(0, False, False)
        raise AssertionError("the network does not come to rest")

    @rule()
    def work(self):
        self.decide()
        for name in self.processes:
            self.tick(name)
        self.deliver_all()

    @rule(side=st.sampled_from([set(), {"left"}, {"me"}]))
    def partition(self, side):
        self.cut = side

    # ---- what happens to disks

    @rule()
    def kill(self):
        self.put_back(Disk(save(self.me), self.open))

    @rule()
    def copy_disk(self):
        self.copies.append(Disk(save(self.me), self.open))

    @precondition(lambda self: self.copies_allowed and self.copies)
    @rule(which=ANY)
    def put_back_copy(self, which):
        self.set_back = True
        self.put_back(self.copies[which % len(self.copies)])

    @precondition(lambda self: self.copies_allowed and self.open)
    @rule(which=ANY)
    def forget_a_reward(self, which):
        """Neighbours hear of a reward that the disk then forgets, and that comes again."""
        self.copy_disk()
        self.reward(which)
        self.work()
        self.put_back_copy(len(self.copies) - 1)
        self.reward(which)

    def put_back(self, disk):
        self.me = self.tune(start(disk.parts, **self.options()))
        self.open = dict(disk.open)
        self.processes["me"] = self.me

    # ---- what must hold

    @invariant()
    def nothing_counts_twice_at_any_step(self):
        for name, process in getattr(self, "processes", {}).items():
            held = read_digits(process.evidence())
            for nth, (rewarded, closed) in held.items():
                # another copy of the disk may have been rewarded, or closed, by itself
                assert (rewarded, closed) in self.ever[nth] | {(rewarded, False)}
                assert rewarded <= any(state[0] for state in self.ever[nth])
            for entry in process.replica.of_origin("me"):
                if entry.covers:
                    self.covers.add(frozenset(entry.covers))
            if name != "me":
                known = {nth: state for nth, state in held.items() if state[1]}
                self.seen_closed |= known

    @invariant()
    def what_is_acknowledged_counts_here_at_once(self):
        if hasattr(self, "me") and not self.set_back:
            assert read_digits(self.me.evidence()) == self.truth

    def teardown(self):
        if not hasattr(self, "me"):
            return
        self.cut = set()
        for _ in range(14):
            for name in self.processes:
                self.tick(name)
            self.deliver_all()
        evidence = self.me.evidence()
        assert evidence == self.me.own()
        for friend in self.friends.values():
            assert friend.evidence() == evidence
        allowed = {"superseded"} if self.set_back else set()  # what had waited, and is counted
        assert all(process.refusals.keys() <= allowed for process in self.processes.values())
        assert not self.me.incarnations.resting
        held = read_digits(evidence)
        if not self.set_back:
            assert held == self.truth
        elif all(
            one <= other or other <= one or not one & other
            for one in self.covers
            for other in self.covers
        ):
            # all neighbours were asked: what one of them held as closed is kept, as it was
            for nth, state in self.seen_closed.items() if self.all_are_asked else ():
                assert held[nth] == state


def test_one_decision_counts_once():
    play(Copies, 150, 50)

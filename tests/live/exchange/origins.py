"""An agent of origins, what others tell it, its disk, and a toy of signatures."""

import hashlib
import json
from dataclasses import replace

from posse.live.exchange import Entry, Origins, OriginsMessage
from posse.live.ledger import PER_UNIT
from tests.live.exchange.world import BOUNDS, FINGERPRINT

ONE = (PER_UNIT, PER_UNIT)


def agent(name="me", **options):
    return Origins(**{"fingerprint": FINGERPRINT, "bounds": BOUNDS, "identity": name, **options})


def entry(origin="other", incarnation=1, seq=1, pulls=1, *, made=1, nonce=0, evidence=None, **more):
    """An entry with pulls of arm "a", or with the evidence that is given."""
    rows = {"a": (0, pulls * PER_UNIT)} if evidence is None else evidence
    epoch, covers = more.pop("epoch", 0), more.pop("covers", ())
    made = Entry.from_ledger((origin, incarnation), (made, seq, nonce), rows, epoch, covers)
    return replace(made, **more)


def base(origin="other", covers=(1, 2), pulls=1, made=None, seq=1, number=99, **more):
    """A base that stands for some incarnations."""
    made = len(covers) if made is None else made
    return entry(origin, number, seq, pulls, made=made, covers=covers, **more)


def message(*entries, holds=(), complete=False, **more):
    return OriginsMessage(FINGERPRINT, entries, holds, complete, **more)


def count(agent, arm="a"):
    """The pulls of an arm that an agent counts."""
    return agent.evidence().get(arm, (0,))[-1] / PER_UNIT


def own_entries(agent):
    """What it holds of itself, beside its bases."""
    return [entry for entry in agent.replica.of_origin(agent.identity) if not entry.covers]


def bases(agent, origin="me"):
    """The bases of an origin that it holds, the one with the largest version first."""
    held = [entry for entry in agent.replica.of_origin(origin) if entry.covers]
    return sorted(held, key=lambda base: base.version, reverse=True)


def save(agent):
    """Commit; returns what is on disk then."""
    parts = json.loads(json.dumps(agent.state()))
    agent.commit()
    return parts


def start(disk, name="me", **options):
    """A new process with this disk; it rests."""
    process = agent(name, **options)
    process.restore(json.loads(json.dumps(disk)))
    return process


def pump(agents, now, rounds=1, seconds=1.0):
    """Let agents by name tick, and deliver all that they and their answers say; returns the time.

    A name may stand for several processes: then each hears all.
    """
    for _ in range(rounds):
        now += seconds
        waiting = []
        for name, process in processes(agents):
            waiting += [(name, *sent) for sent in process.tick(now)]
            save(process)
        for source, target, said in waiting:  # it grows by the answers
            for name, process in processes(agents):
                if name == target:
                    waiting += [(name, *answer) for answer in process.receive(source, said, now)]
                    save(process)
    return now


def processes(agents):
    for name, one_or_more in agents.items():
        for process in one_or_more if isinstance(one_or_more, list) else [one_or_more]:
            yield name, process


def link(*agents):
    """Connect all with all that have another name; returns them by name."""
    for one in agents:
        for other in agents:
            if one.identity != other.identity:
                one.connect(other.identity)
    return {each.identity: each for each in agents}


def signatures(name):
    """A toy of signatures: a keyed hash, of which everyone knows every key."""

    def verify(origin, content, signature):
        return signature == hashlib.sha256(origin.encode() + content).digest()

    def sign(content):
        return hashlib.sha256(name.encode() + content).digest()

    return {"sign": sign, "verify": verify}

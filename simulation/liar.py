"""A liar within bounds: it has a certificate of its own, and cannot sign for anybody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from posse.live.exchange import Entry, FlowsMessage, Origins, OriginsMessage
from posse.live.exchange.messages import Holding, signed_bytes
from posse.live.experiment.experiment import LiveExperiment
from posse.live.ledger import LARGEST, PER_UNIT
from posse.live.messaging.wire import VERSION, Codec
from simulation.agents import LIAR, sign_content
from simulation.world import Site, World

CODEC = Codec(OriginsMessage, FlowsMessage)


def make_lies(world: World, site: Site, b: int) -> list[bytes]:
    """Some payloads for a site."""
    kinds = ORIGINS if world.plan.exchange == "origins" else FLOWS
    return kinds[b % len(kinds)](world, site, b // len(kinds))


def garbage(world: World, site: Site, b: int) -> list[bytes]:
    """Bytes that are no message."""
    return [
        world.random.randbytes(b % 50),
        b"",
        b"\x01",
        b"\x63" + bytes(10),
        b"\x01" + b"\x91" * 9,
    ]


def bent(world: World, site: Site, b: int) -> list[bytes]:
    """Somebody's message with a byte changed."""
    if not world.post.seen:
        return []
    payload = bytearray(world.post.seen[b % len(world.post.seen)].payload)
    payload[b * 7 % len(payload)] ^= 1 << b % 8
    return [] if world.plan.exchange == "flows" else [bytes(payload)]


def relayed(world: World, site: Site, b: int) -> list[bytes]:
    """Old messages of others, under the liar's name."""
    return [letter.payload for letter in world.post.seen[b % 7 :: 7][-10:]]


def target_experiment(site: Site) -> LiveExperiment:
    """The experiment that is lied to."""
    assert site.node is not None
    return next(iter(site.node.experiments.values()))


def encode_entries(site: Site, entries: list[Entry]) -> list[bytes]:
    """A message of these entries."""
    victim = target_experiment(site)
    message = OriginsMessage(victim.agent.fingerprint, tuple(entries), (), False)
    return [CODEC.encode(message, victim.name)]


def sign_entry(site: Site, entry: Entry, name: str) -> Entry:
    """The entry with the liar's signature, which is not `name`'s."""
    victim = target_experiment(site)
    content = signed_bytes(victim.agent.fingerprint, entry, "default")
    return replace(entry, signature=sign_content(name, content))


def closed_sums(reward: int, pulls: int) -> tuple[int, ...]:
    """The row of an arm whose decisions are all closed."""
    return reward, reward, pulls, pulls


def forged(world: World, site: Site, b: int) -> list[bytes]:
    """An honest origin's next entry, which the liar signs."""
    if site.node is None:
        return []
    name = list(world.sites)[b % len(world.sites)]
    incarnations = [i for o, i, *_ in list_holdings(site) if o == name] or [5]
    evidence = {"red": closed_sums(1 << b % 40, PER_UNIT)}
    key = name, incarnations[b % len(incarnations)]
    entry = Entry.from_ledger(key, (1000 + b, 1, 1), evidence)
    return encode_entries(site, [sign_entry(site, entry, LIAR)])


def list_holdings(site: Site) -> list[Holding]:
    """What a site's entries are."""
    assert site.node is not None
    exchange = target_experiment(site).agent.exchange
    assert isinstance(exchange, Origins)
    return [entry.holding for entry in exchange.replica.entries.values()]


def own(world: World, site: Site, b: int) -> list[bytes]:
    """The liar's own rewards, as many as it likes, with good and bad entries beside them."""
    if site.node is None:
        return []
    pulls = closed_sums(b % 1000, PER_UNIT * (1 + b % 9))
    fine = Entry.from_ledger((LIAR, 1 + b % 3), (1, 1 + b % 5, b % 2), {"lie": pulls})
    absurd = Entry.from_ledger((LIAR, 7), (1, 1, 0), {"lie": closed_sums(2**62, 1)})
    return encode_entries(site, [sign_entry(site, fine, LIAR), sign_entry(site, absurd, LIAR)])


def boast(world: World, site: Site, b: int) -> list[bytes]:
    """To hold more of everybody's entries than there is."""
    if site.node is None:
        return []
    boasted = tuple(
        (origin, incarnation, made, seq + b % 3 * 100, nonce)
        for origin, incarnation, made, seq, nonce in list_holdings(site)
    )
    victim = target_experiment(site)
    message = OriginsMessage(victim.agent.fingerprint, (), boasted, bool(b % 2))
    return [CODEC.encode(message, victim.name)]


def plausible(world: World, site: Site, b: int) -> list[bytes]:
    """Bases of the liar's own, which cover incarnations of others, and some the same ones."""
    if site.node is None:
        return []
    names = sorted({5, *(incarnation for _, incarnation, *_ in list_holdings(site))})
    covers = tuple(names[b % len(names) :][:20])
    version = 1 + b % 9, 1, b % 5
    pulls = {"lie": closed_sums(b % 100, PER_UNIT)}
    base = Entry.from_ledger((LIAR, 13 + b % 3), version, pulls, covers=covers)
    return encode_entries(site, [sign_entry(site, base, LIAR)])


def answer(world: World, site: Site, b: int) -> list[bytes]:
    """To answer a question of nobody, and to hold nothing, or too much, of the one that asks."""
    if site.node is None:
        return []
    victim = target_experiment(site)
    holds = ((site.agent, 1 + b % 9, 10**6, 1, 1),) if b % 2 else ()
    key = (site.agent, 0), (site.agent, LARGEST)
    message = OriginsMessage(
        *(victim.agent.fingerprint, (), holds, True, *key), asks=(site.agent, 1 + b), answers=1 + b
    )
    return [CODEC.encode(message, victim.name)]


def oversized(world: World, site: Site, b: int) -> list[bytes]:
    """As much as fits into a message, or a little more: arms, names, holdings, nothing at all."""
    if site.node is None:
        return []
    victim = target_experiment(site)
    row = closed_sums(0, PER_UNIT)
    arms = {f"lie{n}": row for n in range(900 + b % 200)}
    wide = Entry.from_ledger((LIAR, 11), (1, 1 + b % 5, 1), arms)
    long = Entry.from_ledger((LIAR, 12), (1, 1, 1), {"lie" * 400: row})
    holds = tuple((LIAR, n, 1, 1, 1) for n in range(2000))
    digest = OriginsMessage(victim.agent.fingerprint, (), holds, True)
    payloads = encode_entries(site, [sign_entry(site, wide, LIAR), sign_entry(site, long, LIAR)])
    return [*payloads, CODEC.encode(digest, victim.name), bytes([VERSION]) + bytes(200_000)]


Lie = Callable[[World, Site, int], list[bytes]]
ORIGINS: tuple[Lie, ...] = (
    *(garbage, bent, relayed, forged, own, boast, plausible, answer, oversized),
)
FLOWS: tuple[Lie, ...] = (garbage, bent)

"""A liar within bounds: it has a certificate of its own, and cannot sign for anybody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from posse.live.exchange.messages import signed_bytes
from posse.live.exchange.messages import Entry, FlowsMessage, OriginsMessage
from posse.live.exchange.evidence_sums import PER_UNIT
from posse.live.experiment.experiment import LiveExperiment
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
    entry = replace(entry, experiment=victim.name)
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
    entry = Entry(name, incarnations[b % len(incarnations)], 1000 + b, evidence)
    return encode_entries(site, [sign_entry(site, entry, LIAR)])


def list_holdings(site: Site) -> list[tuple[str, int, int]]:
    """What a site's entries are."""
    assert site.node is not None
    exchange = target_experiment(site).agent.exchange
    books = exchange._books  # type: ignore[attr-defined]
    return [(*key, entry.seq) for key, entry in books.entries.items()]


def own(world: World, site: Site, b: int) -> list[bytes]:
    """The liar's own rewards, as many as it likes, with good and bad entries beside them."""
    if site.node is None:
        return []
    fine = Entry(LIAR, b % 3, 1 + b % 5, {"lie": closed_sums(b % 1000, PER_UNIT * (1 + b % 9))})
    absurd = Entry(LIAR, 7, 1, {"lie": closed_sums(2**62, 1)})
    return encode_entries(site, [sign_entry(site, fine, LIAR), sign_entry(site, absurd, LIAR)])


def boast(world: World, site: Site, b: int) -> list[bytes]:
    """To hold more of everybody's entries than there is."""
    if site.node is None:
        return []
    boasted = tuple((o, i, seq + b % 3 * 100) for o, i, seq in list_holdings(site))
    victim = target_experiment(site)
    message = OriginsMessage(victim.agent.fingerprint, (), boasted, bool(b % 2))
    return [CODEC.encode(message, victim.name)]


def plausible(world: World, site: Site, b: int) -> list[bytes]:
    """A fold of the liar's own, with the incarnations of others and a floor above all of them."""
    if site.node is None:
        return []
    incarnations = sorted({i for _, i, _ in list_holdings(site)})
    top = max([5, *incarnations]) + 1 + b % 7
    names = tuple((incarnation, 10**6) for incarnation in incarnations[:20] if incarnation != top)
    fold = Entry(LIAR, top, 1 + b % 9, {"lie": closed_sums(b % 100, PER_UNIT)}, folded=names)
    return encode_entries(site, [sign_entry(site, replace(fold, floor=top * (b % 2)), LIAR)])


def oversized(world: World, site: Site, b: int) -> list[bytes]:
    """As much as fits into a message, or a little more: arms, names, holdings, nothing at all."""
    if site.node is None:
        return []
    victim = target_experiment(site)
    nothing = closed_sums(0, PER_UNIT)
    wide = Entry(LIAR, 11, 1 + b % 5, {f"lie{n}": nothing for n in range(900 + b % 200)})
    long = Entry(LIAR, 12, 1, {"lie" * 400: nothing})
    holds = tuple((LIAR, n, 1) for n in range(2000))
    digest = OriginsMessage(victim.agent.fingerprint, (), holds, True)
    payloads = encode_entries(site, [sign_entry(site, wide, LIAR), sign_entry(site, long, LIAR)])
    return [*payloads, CODEC.encode(digest, victim.name), bytes([VERSION]) + bytes(200_000)]


Lie = Callable[[World, Site, int], list[bytes]]
ORIGINS: tuple[Lie, ...] = (garbage, bent, relayed, forged, own, boast, plausible, oversized)
FLOWS: tuple[Lie, ...] = (garbage, bent)

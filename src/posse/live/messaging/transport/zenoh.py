"""Messages over zenoh, from peer to peer: mutual TLS, and nobody speaks as somebody else.

A message from one agent to another has the key posse/NETWORK/FROM/TO. A sample does not tell whose
certificate brought it, so each agent's access control list binds keys to certificates: all is
denied but what the certificate of FROM sends and that of TO hears. Behind a router (`Router`) its
list does so for all, and agents hear the router's certificate only.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from itertools import chain
from typing import Any

import zenoh

from posse import validation
from posse.live.counters import Counts
from posse.live.messaging.transport import MAX_BYTES, Receive, check_size
from posse.live.messaging.transport.zenoh_settings import key, router_settings, settings
from posse.live.security import certificates
from posse.live.security.certificates import LARGEST, Files, checked_name

logger = logging.getLogger(__name__)

ROUTER_PAUSE = 0.5  # seconds between two attempts to reach a router
PATIENCE = 1.0  # seconds that close() waits for zenoh, which ends by itself soon after
CERTIFICATES = 4  # of one neighbour are kept: one, and its successors

Ends = tuple[str, str, str]  # of a link: its session, source and destination


class ZenohTransport:
    """An agent's zenoh session, open from start() to close()."""

    def __init__(
        self,
        name: str,
        neighbours: Mapping[str, str | None],
        *,
        listen: str | Sequence[str] = (),
        files: Files | None = None,
        network: str = "default",
        insecure: bool = False,
        max_bytes: int = MAX_BYTES,
        router: tuple[str, str] | None = None,
    ) -> None:
        """Take neighbours as name: "host:port", or name: None for one that only dials us.

        With a router, given by name and address, all neighbours are None: it is what we dial.
        """
        self.name = checked_name(name)
        self.network = checked_name(network)
        self.neighbours = {checked_name(peer): address for peer, address in neighbours.items()}
        if name in self.neighbours:
            raise ValueError(f"{name!r} cannot be its own neighbour")
        self.max_bytes = max_bytes
        listens = [listen] if isinstance(listen, str) else list(listen)
        dials = [address for address in self.neighbours.values() if address is not None]
        self.router = None if router is None else checked_name(router[0])
        if router is not None:
            if listens or dials or insecure:
                raise ValueError(
                    f"with the router {self.router} there is no address to listen on, none of a "
                    "neighbour, and certificates: leave listen and their addresses empty"
                )
            dials = [router[1]]
        for address in (*listens, *dials):
            _check_address(address, insecure)
        if insecure == (files is not None):
            raise ValueError(
                "give the files of a certificate (posse certs issue writes them), or insecure for "
                "a trial on this machine without any, and not both"
            )
        self._settings = settings(
            name,
            list(self.neighbours),
            self.network,
            listens,
            dials,
            files,
            max_bytes,
            self.router,
        )
        self._files = files
        self._listens = listens
        self._lock = threading.Lock()
        self._watching = threading.Lock()
        self._session: Any = None
        self._opening: threading.Thread | None = None
        self._publishers: dict[str, Any] = {}
        self._closed = False
        self._links: dict[Ends, str] = {}  # -> whose certificate
        self._linked: frozenset[str] = frozenset()
        self._heard: set[str] = set()  # neighbours that spoke since their link opened
        self._certificate: bytes | None = None  # ours, sent along with every message
        self._authorities: list[Any] = []
        self._ends: dict[str, float] = {}  # when a neighbour's certificate ends, as it last sent it
        self._seen: dict[str, dict[bytes, float]] = {}  # of a neighbour: certificates, their ends
        self.refusals = Counts()  # of messages, by why they were not taken
        self._contested: frozenset[str] = frozenset()
        self._said_away = False  # that the router is, in the log

    def start(self, receive: Receive) -> None:
        """Open the session; `receive` is called from zenoh's threads."""
        with self._lock:
            if self._closed or self._session is not None or self._opening is not None:
                raise RuntimeError(f"the transport of {self.name} was started before")
            if self._files is not None:
                certificates.check_files(self.name, self._files)
                ours = certificates.read_certificate(self._files.certificate)
                for address in self._listens:
                    if problem := certificates.host_problem(ours, address):
                        logger.warning("%s", problem)
                self._certificate = certificates.encoded(ours)
                self._authorities = certificates.read_authorities(self._files.authority)
            if self.router is not None:  # it may not be there yet, and nobody waits for it
                self._opening = threading.Thread(target=self._open_when_there, args=(receive,))
                self._opening.start()
                return
            try:
                self._open(receive)
            except zenoh.ZError as error:
                where = ", ".join(self._listens)
                raise ValueError(f"{self.name} cannot listen on {where}: {_brief(error)}") from None

    def _open_when_there(self, receive: Receive) -> None:
        """Try to reach the router until it is there; from then on zenoh comes back by itself."""
        while True:
            try:
                with self._lock:
                    if not self._closed:
                        self._open(receive)
                return
            except zenoh.ZError as error:
                if not self._said_away:
                    logger.warning("the router %s is not reached: %s", self.router, _brief(error))
                self._said_away = True
            time.sleep(ROUTER_PAUSE)

    def _open(self, receive: Receive) -> None:
        self._session = zenoh.open(zenoh.Config.from_json5(json.dumps(self._settings)))
        # directly, here and below, and not in threads of Python, whose end it waits for at its own:
        # where a session could not be closed, for want of threads, the process stayed for ever
        watch = zenoh.handlers.Callback(self._watch, indirect=False)
        self._session.info.declare_link_events_listener(watch, history=True)
        for peer in self.neighbours:
            self._publishers[peer] = self._session.declare_publisher(
                key(self.network, self.name, peer),
                # blocking would stall us for seconds whenever a neighbour hangs
                congestion_control=zenoh.CongestionControl.DROP,
                express=True,
            )
            self._subscribe(peer, receive)

    def _subscribe(self, peer: str, receive: Receive) -> None:
        theirs = key(self.network, peer, self.name)

        def heard(sample: Any) -> None:
            if reason := self._problem(peer, theirs, sample):
                self.refusals.add(reason)
            elif self._open_to(peer):
                self._heard.add(peer)
                receive(peer, sample.payload.to_bytes())

        # in zenoh's own thread, so that a sender waits for us: in one of Python's, 256 messages of
        # each neighbour would wait in memory (seen: 256 MB)
        direct = zenoh.handlers.Callback(heard, indirect=False)
        self._session.declare_subscriber(theirs, direct, allowed_origin=zenoh.Locality.REMOTE)

    def _problem(self, peer: str, key: str, sample: Any) -> str:
        """Why a message is refused, before any of it is copied; empty for one that is taken."""
        # a key with wildcards would match ours, too
        if str(sample.key_expr) != key or sample.kind != zenoh.SampleKind.PUT:
            return "not under its own key"
        if len(sample.payload) > self.max_bytes:
            return "too large"
        return "" if self._files is None else self._certificate_problem(peer, sample.attachment)

    def _certificate_problem(self, peer: str, attachment: Any) -> str:
        """Why what came along with a message is no certificate of its sender that is good now.

        TLS resumes a session without looking at the certificate again: one that ended would go on
        for as long as we run.
        """
        if attachment is None or not len(attachment):
            return "no certificate"
        if len(attachment) > LARGEST:  # before it is copied, and never kept
            return "a certificate that is too large"
        content = attachment.to_bytes()
        seen = self._seen.setdefault(peer, {})
        ends = seen.get(content)
        if ends is None:
            found = certificates.received(content, self._authorities)
            if found is None or found[0] != peer:
                return "no certificate"
            ends = found[1].not_valid_after_utc.timestamp()
            if len(seen) >= CERTIFICATES:
                seen.clear()
            seen[content] = ends
        self._ends[peer] = ends
        return "" if time.time() < ends else "a certificate that ended"

    def _watch(self, event: Any) -> None:
        """Hear of a link that opens or ends."""
        if str(event.kind).endswith("PUT"):
            self._account({_ends(event.link): event.link.auth_identifier or ""}, set())
        else:
            self._account({}, {_ends(event.link)})

    def _look(self) -> None:
        """Find links that ended without an event, as some do on a busy machine."""
        with self._watching:
            known = set(self._links)  # before we ask: what opens meanwhile is not gone
        session = self._session
        there = () if session is None else session.info.links()
        if gone := known - {_ends(link) for link in there}:
            self._account({}, gone)

    def _account(self, opened: Mapping[Ends, str], ended: Set[Ends]) -> None:
        """Keep account of whose links carry what: an agent's must all be of one certificate.

        zenoh applies the access control of the first link to all that claim the same session id
        (https://github.com/eclipse-zenoh/zenoh/issues/1204), so that a second certificate on one
        could speak as the first; such a peer is neither heard nor told anything.
        """
        with self._watching:
            # by their ends, not counted: one that opens while we begin to watch is told of twice
            links = {**self._links, **opened}
            self._links = {ends: name for ends, name in links.items() if ends not in ended}
            self._linked = frozenset(self._links.values())
            self._heard &= self._linked
            sessions: defaultdict[str, set[str]] = defaultdict(set)
            for (zid, *_), name in self._links.items():
                sessions[zid].add(name)
            mixed = (names for names in sessions.values() if len(names) > 1)
            before = self._contested
            self._contested = frozenset(chain.from_iterable(mixed))
            self._say_of_router()
        if new := self._contested - before:
            logger.warning(
                "the certificates of %s claim to be one agent: %s is not heard until one of them "
                "goes, or after a restart",
                " and ".join(sorted(new)),
                ", ".join(sorted(new & self.neighbours.keys())) or "neither",
            )

    def _say_of_router(self) -> None:
        """That the router went, or came: or the log would blame every neighbour behind it."""
        away = self.router is not None and self.router not in self._linked
        if away == self._said_away or self._closed:
            return
        self._said_away = away
        if away:
            logger.warning("the router %s is gone: nobody is heard until it is back", self.router)
        else:
            logger.warning("the router %s is reached", self.router)

    def _open_to(self, peer: str) -> bool:
        # after a link died with much under way, zenoh goes on as if the peer still listened
        who = self.router or peer
        linked = self._files is None or who in self._linked
        current = time.time() < self._ends.get(peer, math.inf)
        return linked and current and who not in self._contested and not self._closed

    def send(self, peer: str, payload: bytes) -> None:
        """Hand a message to zenoh; to anyone but a connected neighbour, nothing goes out."""
        check_size(payload, self.max_bytes)
        publisher = self._publishers.get(peer)
        if publisher is None or not self._open_to(peer):
            return
        # what cannot go out is lost, as on any network
        with contextlib.suppress(zenoh.ZError):
            publisher.put(payload, attachment=self._certificate)

    def connected(self) -> dict[str, bool]:
        """The neighbours, and whether each is listening to us now."""
        reached = dict.fromkeys(self.neighbours, False)
        with contextlib.suppress(zenoh.ZError):
            self._look()
            for peer, publisher in list(self._publishers.items()):
                # what a neighbour declared can get lost with a link that died and not come again,
                # while messages pass both ways; a router's link says nothing of those behind it
                speaks = self.router is None and peer in self._heard
                listens = speaks or publisher.matching_status.matching
                reached[peer] = self._open_to(peer) and listens
        return reached

    def close(self, patience: float = PATIENCE) -> None:
        """Close the session and its links; wait for it some seconds, such as for its address."""
        self._closed = True
        with self._lock:
            session = self._session
            self._session = None
            self._publishers = {}
        if session is None:
            return
        # zenoh waits for links it is opening, to one that hangs for as long as HANDSHAKE; not
        # a daemon, which Python would kill inside of zenoh, and itself with it
        closing = threading.Thread(target=_close, args=(session,))
        try:
            closing.start()
        except RuntimeError:  # the system has no more threads: then we wait
            _close(session)
        else:
            closing.join(patience)


class Router:
    """Passes messages on between agents that cannot call each other; it only listens.

    It binds keys to certificates for them, so that they trust it not to forge: entries of origins
    are signed, flows are not.
    """

    def __init__(
        self, name: str, agents: Sequence[str], *, listen: str, files: Files, network: str
    ) -> None:
        for each in (name, network, *agents):
            checked_name(each)
        _check_address(listen, insecure=False)
        certificates.check_files(name, files)
        made = router_settings(agents, network, [listen], files)
        try:
            self._session = zenoh.open(zenoh.Config.from_json5(json.dumps(made)))
        except zenoh.ZError as error:
            raise ValueError(f"{name} cannot listen on {listen}: {_brief(error)}") from None

    def close(self) -> None:
        """Close the session and its links."""
        _close(self._session)


def _ends(link: Any) -> Ends:
    return str(link.zid), str(link.src), str(link.dst)


def _close(session: Any) -> None:
    with contextlib.suppress(zenoh.ZError):
        session.close()


def _check_address(address: str, insecure: bool) -> None:
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) <= 65535):
        raise ValueError(
            f"an address is host:port, such as agent.example.org:7447, "
            f"got {validation.format_value(address)}"
        )
    if insecure and host != "localhost":
        try:
            local = ipaddress.ip_address(host.strip("[]")).is_loopback
        except ValueError:
            local = False
        if not local:
            raise ValueError(f"without certificates an agent stays on 127.0.0.1, got {address}")


def _brief(error: Exception) -> str:
    """The first line of zenoh's error, without the places in its source."""
    return str(error).splitlines()[0].split(" at /")[0]

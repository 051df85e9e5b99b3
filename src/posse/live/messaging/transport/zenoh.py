"""Messages over zenoh, from peer to peer: mutual TLS, and no agent can speak as another one.

A message from one agent to another has the key posse/NETWORK/FROM/TO. A sample does not tell whose
certificate brought it, so each agent's access control list binds keys to certificates: all is
denied except what the certificate of FROM sends and that of TO receives. Behind a router (`Router`)
its list does so for all, and agents accept the router's certificate only.
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
from types import MappingProxyType
from typing import Any

import zenoh

from posse import validation
from posse.live.counters import Counts
from posse.live.messaging.transport import MAX_BYTES, Receive, check_size
from posse.live.messaging.transport.zenoh_settings import (
    message_key,
    router_settings,
    session_settings,
)
from posse.live.security import (
    MOST_CERTIFICATE_BYTES,
    CertificateFiles,
    check_files,
    decode_certificate,
    encode_certificate,
    host_problem,
    read_authorities,
    read_certificate,
    validate_name,
)

logger = logging.getLogger(__name__)

ROUTER_PAUSE = 0.5  # seconds between two attempts to reach a router
ROUTER_THREAD = "posse-router"  # the name of the thread that makes them
PATIENCE = 1.0  # seconds that close() waits for zenoh, which ends by itself soon after
MOST_CERTIFICATES = 4  # of one neighbour are kept: one, and its successors

LinkEnds = tuple[str, str, str]  # of a link: its session, source and destination


class ZenohTransport:
    """An agent's zenoh session, open from start() to close()."""

    def __init__(
        self,
        name: str,
        neighbours: Mapping[str, str | None],
        *,
        listen: str | Sequence[str] = (),
        files: CertificateFiles | None = None,
        network: str = "default",
        insecure: bool = False,
        max_bytes: int = MAX_BYTES,
        router: tuple[str, str] | None = None,
    ) -> None:
        """Take neighbours as name: "host:port", or name: None for one that only dials us.

        With a router, given by name and address, all neighbours are None: it is what we dial.
        """
        self.name = validate_name(name)
        self.network = validate_name(network)
        self.neighbours = {validate_name(peer): address for peer, address in neighbours.items()}
        if name in self.neighbours:
            raise ValueError(f"{name!r} cannot be its own neighbour")
        self.max_bytes = max_bytes
        listens = [listen] if isinstance(listen, str) else list(listen)
        dials = [address for address in self.neighbours.values() if address is not None]
        self.router = None if router is None else validate_name(router[0])
        if router is not None:
            if listens or dials or insecure:
                raise ValueError(
                    f"with the router {self.router}, leave listen and the addresses of neighbours "
                    "empty, and use certificates"
                )
            dials = [router[1]]
        for address in (*listens, *dials):
            _check_address(address, insecure)
        if insecure == (files is not None):
            raise ValueError(
                "give the files of a certificate (posse certs issue writes them), or insecure for "
                "a trial on this machine without any, and not both"
            )
        self._settings = session_settings(
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
        self.publishers: dict[str, Any] = {}
        self._closed = False
        self._links: dict[LinkEnds, str] = {}  # -> whose certificate
        self._linked_names: frozenset[str] = frozenset()
        self._heard_peers: set[str] = set()  # neighbours that spoke since their link opened
        self._certificate: bytes | None = None  # ours, sent along with every message
        self._authorities: list[Any] = []
        self._certificate_ends: dict[
            str, float
        ] = {}  # when a neighbour's certificate ends, as it last sent it
        self._certificates_seen: dict[
            str, dict[bytes, float]
        ] = {}  # of a neighbour: certificates, their ends
        self.refusals = Counts()  # of messages, by why they were not taken
        self._contested: frozenset[str] = frozenset()
        self._logged_away = False  # that the router is, in the log

    def start(self, receive: Receive) -> None:
        """Open the session; `receive` is called from zenoh's threads."""
        with self._lock:
            if self._closed or self._session is not None or self._opening is not None:
                raise RuntimeError(f"the transport of {self.name} was started before")
            if self._files is not None:
                check_files(self.name, self._files)
                ours = read_certificate(self._files.certificate)
                for address in self._listens:
                    if problem := host_problem(ours, address):
                        logger.warning("%s", problem)
                self._certificate = encode_certificate(ours)
                self._authorities = read_authorities(self._files.authority)
            if self.router is not None:  # it may not be there yet, and nobody waits for it
                self._opening = threading.Thread(
                    target=self._open_when_router_answers, args=(receive,), name=ROUTER_THREAD
                )
                self._opening.start()
                return
            try:
                self._open_session(receive)
            except zenoh.ZError as error:
                where = ", ".join(self._listens)
                raise ValueError(
                    f"{self.name} cannot listen on {where}: {_first_line(error)}"
                ) from None

    def _open_when_router_answers(self, receive: Receive) -> None:
        """Try to reach the router until it is there; from then on zenoh comes back by itself."""
        while True:
            try:
                with self._lock:
                    if not self._closed:
                        self._open_session(receive)
                return
            except zenoh.ZError as error:
                if not self._logged_away:
                    logger.warning(
                        "cannot reach the router %s: %s", self.router, _first_line(error)
                    )
                self._logged_away = True
            time.sleep(ROUTER_PAUSE)

    def _open_session(self, receive: Receive) -> None:
        self._session = zenoh.open(zenoh.Config.from_json5(json.dumps(self._settings)))
        # directly, here and below, and not in threads of Python, whose end it waits for at its own:
        # where a session could not be closed, for want of threads, the process stayed for ever
        watch = zenoh.handlers.Callback(self._on_link_event, indirect=False)
        self._session.info.declare_link_events_listener(watch, history=True)
        for peer in self.neighbours:
            self.publishers[peer] = self._session.declare_publisher(
                message_key(self.network, self.name, peer),
                # blocking would stall us for seconds whenever a neighbour hangs
                congestion_control=zenoh.CongestionControl.DROP,
                express=True,
            )
            self._subscribe_to(peer, receive)

    def _subscribe_to(self, peer: str, receive: Receive) -> None:
        theirs = message_key(self.network, peer, self.name)

        def on_sample(sample: Any) -> None:
            if reason := self._find_problem(peer, theirs, sample):
                self.refusals.add(reason)
            elif self._may_send_to(peer):
                self._heard_peers.add(peer)
                receive(peer, sample.payload.to_bytes())

        # in zenoh's own thread, so that a sender waits for us: in one of Python's, 256 messages of
        # each neighbour would wait in memory (seen: 256 MB)
        direct = zenoh.handlers.Callback(on_sample, indirect=False)
        self._session.declare_subscriber(theirs, direct, allowed_origin=zenoh.Locality.REMOTE)

    def _find_problem(self, peer: str, key: str, sample: Any) -> str:
        """Return why a message is refused, before any of it is copied; "" if it is accepted."""
        # a key with wildcards would match ours, too
        if str(sample.key_expr) != key or sample.kind != zenoh.SampleKind.PUT:
            return "wrong_key"
        if len(sample.payload) > self.max_bytes:
            return "message_too_large"
        return "" if self._files is None else self._certificate_problem(peer, sample.attachment)

    def _certificate_problem(self, peer: str, attachment: Any) -> str:
        """Return why the attachment of a message is no valid certificate of its sender.

        TLS resumes a session without checking the certificate again: an expired one would stay
        valid for as long as this process runs.
        """
        if attachment is None or not len(attachment):
            return "certificate_missing"
        if len(attachment) > MOST_CERTIFICATE_BYTES:  # before it is copied, and never kept
            return "certificate_too_large"
        content = attachment.to_bytes()
        certificates_seen = self._certificates_seen.setdefault(peer, {})
        ends = certificates_seen.get(content)
        if ends is None:
            certificate = decode_certificate(content, self._authorities)
            if certificate is None or certificate[0] != peer:
                return "certificate_missing"
            ends = certificate[1].not_valid_after_utc.timestamp()
            if len(certificates_seen) >= MOST_CERTIFICATES:
                certificates_seen.clear()
            certificates_seen[content] = ends
        self._certificate_ends[peer] = ends
        return "" if time.time() < ends else "certificate_expired"

    def _on_link_event(self, event: Any) -> None:
        """Note a link that opens or ends."""
        if str(event.kind).endswith("PUT"):
            self.update_links({_link_ends(event.link): event.link.auth_identifier or ""}, set())
        else:
            self.update_links({}, {_link_ends(event.link)})

    def _drop_dead_links(self) -> None:
        """Drop links that ended without an event, as some do on a busy machine."""
        with self._watching:
            before = set(self._links)  # before we ask: what opens meanwhile is not gone
        session = self._session
        open_links = () if session is None else session.info.links()
        if ended := before - {_link_ends(link) for link in open_links}:
            self.update_links({}, ended)

    @property
    def links(self) -> Mapping[LinkEnds, str]:
        """The open links, with the name in the certificate of each."""
        return MappingProxyType(self._links)

    @property
    def certificates_seen(self) -> dict[str, list[bytes]]:
        """The valid certificates of each neighbour, as last sent; a few of each are kept."""
        return {peer: list(ends) for peer, ends in self._certificates_seen.items()}

    @property
    def session_id(self) -> str | None:
        """zenoh's identifier of the open session."""
        session = self._session
        return None if session is None else str(session.info.zid())

    def update_links(self, opened: Mapping[LinkEnds, str], ended: Set[LinkEnds]) -> None:
        """Update whose links are open: all links of one session must have one certificate.

        zenoh applies the access control of the first link to all that claim the same session id
        (https://github.com/eclipse-zenoh/zenoh/issues/1204), so that a second certificate on one
        could speak as the first; messages from and to such a peer are dropped.
        """
        with self._watching:
            # by their ends, not counted: one that opens while we begin to watch is told of twice
            links = {**self._links, **opened}
            self._links = {ends: name for ends, name in links.items() if ends not in ended}
            self._linked_names = frozenset(self._links.values())
            self._heard_peers &= self._linked_names
            sessions: defaultdict[str, set[str]] = defaultdict(set)
            for (zid, *_), name in self._links.items():
                sessions[zid].add(name)
            mixed = (names for names in sessions.values() if len(names) > 1)
            before = self._contested
            self._contested = frozenset(chain.from_iterable(mixed))
            self._log_router()
        if new := self._contested - before:
            logger.warning(
                "the certificates of %s claim one session: messages of %s are dropped until one of "
                "them disconnects",
                " and ".join(sorted(new)),
                ", ".join(sorted(new & self.neighbours.keys())) or "neither",
            )

    def _log_router(self) -> None:
        """Log that the router is lost or reached, so that the log does not blame all neighbours."""
        away = self.router is not None and self.router not in self._linked_names
        if away == self._logged_away or self._closed:
            return
        self._logged_away = away
        if away:
            logger.warning("lost the router %s: no messages until it is back", self.router)
        else:
            logger.warning("connected to the router %s", self.router)

    def _may_send_to(self, peer: str) -> bool:
        # after a link died with much under way, zenoh goes on as if the peer still listened
        holder = self.router or peer
        linked = self._files is None or holder in self._linked_names
        current = time.time() < self._certificate_ends.get(peer, math.inf)
        return linked and current and holder not in self._contested and not self._closed

    def send(self, peer: str, payload: bytes) -> None:
        """Hand a message to zenoh; nothing is sent to a peer that is no connected neighbour."""
        check_size(payload, self.max_bytes)
        publisher = self.publishers.get(peer)
        if publisher is None or not self._may_send_to(peer):
            return
        # what cannot go out is lost, as on any network
        with contextlib.suppress(zenoh.ZError):
            publisher.put(payload, attachment=self._certificate)

    def connected(self) -> dict[str, bool]:
        """Return the neighbours, and whether each is listening now."""
        reached = dict.fromkeys(self.neighbours, False)
        with contextlib.suppress(zenoh.ZError):
            self._drop_dead_links()
            for peer, publisher in list(self.publishers.items()):
                # what a neighbour declared can get lost with a link that died and not come again,
                # while messages pass both ways; a router's link says nothing of those behind it
                speaks = self.router is None and peer in self._heard_peers
                listens = speaks or publisher.matching_status.matching
                reached[peer] = self._may_send_to(peer) and listens
        return reached

    def close(self, patience: float = PATIENCE) -> None:
        """Close the session and its links; wait some seconds for it, such as for its address."""
        self._closed = True
        with self._lock:
            session = self._session
            self._session = None
            self.publishers = {}
        if session is None:
            return
        # zenoh waits for links it is opening, to one that hangs for as long as HANDSHAKE; not
        # a daemon, which Python would kill inside of zenoh, and itself with it
        closing = threading.Thread(target=_close_session, args=(session,))
        try:
            closing.start()
        except RuntimeError:  # the system has no more threads: then we wait
            _close_session(session)
        else:
            closing.join(patience)


class Router:
    """Passes messages on between agents that cannot dial each other; it only listens.

    It binds keys to certificates for them, so that they must trust it not to forge: entries of
    origins are signed, flows are not.
    """

    def __init__(
        self,
        name: str,
        agents: Sequence[str],
        *,
        listen: str,
        files: CertificateFiles,
        network: str,
    ) -> None:
        for part in (name, network, *agents):
            validate_name(part)
        _check_address(listen, insecure=False)
        check_files(name, files)
        settings_ = router_settings(agents, network, [listen], files)
        try:
            self._session = zenoh.open(zenoh.Config.from_json5(json.dumps(settings_)))
        except zenoh.ZError as error:
            raise ValueError(f"{name} cannot listen on {listen}: {_first_line(error)}") from None

    def close(self) -> None:
        """Close the session and its links."""
        _close_session(self._session)


def _link_ends(link: Any) -> LinkEnds:
    return str(link.zid), str(link.src), str(link.dst)


def _close_session(session: Any) -> None:
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
            raise ValueError(
                f"without certificates an agent must listen on 127.0.0.1, got {address}"
            )


def _first_line(error: Exception) -> str:
    """The first line of zenoh's error, without the places in its source."""
    return str(error).splitlines()[0].split(" at /")[0]

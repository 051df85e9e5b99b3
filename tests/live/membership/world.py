"""Presences on any graph, clocks of their own, and a network that does its worst."""

import hmac

from posse.live.membership.heartbeats import Presence
from posse.live.membership.network_view import NetworkView
from posse.live.membership.records import StatusMessage
from posse.live.messaging.wire import Codec

CODEC = Codec(StatusMessage)


def signed_by(name):
    return lambda content: hmac.digest(name.encode(), content, "sha256")


def verify(origin, content, signature):
    return hmac.compare_digest(signed_by(origin)(content), signature)


class World:
    """Agents by name; a message waits until it is delivered, repeated or dropped."""

    def __init__(self, links, relay=True, ahead=None):
        self.links, self.relay = [tuple(link) for link in links], relay
        self.ahead = ahead or {}  # seconds by which a clock is ahead
        self.now = 1e9
        self.agents, self.network, self.cut = {}, [], set()
        self.newest, self.refused, self.sizes, self.carried = {}, {}, [], []
        for name in sorted({name for link in self.links for name in link}):
            self.start(name)

    def time_of(self, name):
        return self.now + self.ahead.get(name, 0.0)

    def start(self, name):
        """A new process, which knows nothing of before."""
        keys = {"sign": signed_by(name), "verify": verify}
        self.agents[name] = Presence(name, "net", now=self.time_of(name), **keys)

    def kill(self, name):
        self.agents.pop(name, None)

    def near(self, name):
        return [b if a == name else a for a, b in self.links if name in (a, b)]

    def passes(self, one, other):
        return {one, other} <= self.agents.keys() and frozenset((one, other)) not in self.cut

    def tick(self, name, say=True):
        """As a node does; without `say` it has nothing new of itself."""
        agent, now = self.agents[name], self.time_of(name)
        agent.note_connections({peer: self.passes(name, peer) for peer in self.near(name)}, now)
        if say and agent.is_due(["shop"], now):
            status = agent.make_status([("shop", 7, 0, 0)], {}, now)
            agent.publish_status(status, ["shop"], now)
            self.newest[name] = status.time
        for peer, message in agent.make_messages(self.near(name), self.relay, now):
            payload = CODEC.encode(message)
            self.sizes.append(len(payload))
            self.carried += [(name, peer, each.origin, each.time) for _, each in message.statuses]
            self.network.append((name, peer, payload))

    def deliver(self, index, repeat=False):
        if self.network:
            index %= len(self.network)
            source, to, payload = self.network[index] if repeat else self.network.pop(index)
            if self.passes(source, to):
                message = CODEC.decode(payload).message
                refused = self.agents[to].receive(source, message, self.time_of(to))
                self.refused[to] = self.refused.get(to, 0) + refused.total()

    def run(self, seconds, say=True, arrives=lambda: True):
        """Tick once a second, and deliver all that arrives."""
        for _ in range(seconds):
            self.now += 1
            for name in list(self.agents):
                self.tick(name, say)
            while self.network:
                if arrives():
                    self.deliver(0)
                else:
                    self.network.pop(0)

    def times(self, name):
        """Of every status that an agent holds."""
        return {origin: each.status.time for origin, each in self.agents[name].statuses().items()}

    def view(self, name):
        agent, now = self.agents[name], self.time_of(name)
        agent.note_connections({peer: self.passes(name, peer) for peer in self.near(name)}, now)
        return NetworkView.from_presence(
            agent, agent.make_status([("shop", 7, 0, 0)], {}, now), {}, (), now
        )

    def states(self, name):
        return {each: shown["state"] for each, shown in self.view(name).describe_agents().items()}

    def edges(self, name):
        view = self.view(name)
        return {
            each["a"] + each["b"]: each["state"]
            for each in view.describe_links(view.describe_agents())
        }

"""A shop with its own books: what it asked, showed and sold, and what agents must report of it.

The books know only the documentation (docs/live-decisions.md, docs/live-uplift.md, docs/revenue.md,
docs/live-monitoring.md). Amounts and metrics are whole numbers, and their ranges end at powers of
two, so that agents can add them without rounding.
"""

import random
import time
from collections import Counter
from dataclasses import dataclass, field

from posse.confidence_sequences import bounded_mean_interval
from posse.live import Client, Conflict

ARMS = ["red", "green", "blue"]
CONTROL = "red"
WINDOW = 15.0  # seconds
LARGEST = 512  # the largest amount
PRIOR = {"alpha": 1, "beta": 19, "sale_shape": 2, "sale_scale": 40}
METRICS = {"latency": 1024, "refunds": 1}  # the largest value of each
LATENCY_LIMIT = 300
REFUNDS_LIMIT = 1.05  # times the end of the control arm's interval
METRIC_ERROR = 0.05  # of all intervals of one metric together
ONE = 2**20  # in evidence
DEFAULT_REWARDS = {"count": 0.0, "wait": 4.0, "reported": None}  # by experiment
SETTINGS = f"""
arms = ["red", "green", "blue"]
family = {{name = "revenue", alpha = 1, beta = 19, sale_shape = 2, sale_scale = 40}}
reward_range = [0, {LARGEST}]
reward_window = {WINDOW}
min_share = 0.1
control_arm = "red"
holdout = 0.05
metrics.latency = {{range = [0, 1024], worse = "higher", limit = 300}}
metrics.refunds = {{range = [0, 1], worse = "higher", limit = "+5%"}}
"""


def write_tables():
    """The tables of all experiments, for agent.toml."""
    text = ""
    for name, reward in DEFAULT_REWARDS.items():
        default = "" if reward is None else f"default_reward = {reward}\n"
        text += f"[experiments.{name}]{SETTINGS}{default}"
    return text


@dataclass
class Visit:
    """A decision in the books, in the states of docs/live-decisions.md."""

    id: str
    site: str
    visitor: str | None
    allowed: list[str]
    asked: float  # by the shop's clock, before the request
    active: bool
    arm: str = ""
    probability: float = 0.0
    holdout: bool | None = None  # on neither side where the control arm may not be played
    cancelled: bool = False
    erased: bool = False
    reward: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)

    default_reward: float | None = 0.0
    answered: float = 0.0  # by the shop's clock, after the first answer

    @property
    def shown(self):
        """Whether its arm was shown, as far as agents were told."""
        return self.active and not self.cancelled

    @property
    def amount(self):
        """Its final reward; none if it was not shown, or nothing is known of it."""
        if not self.shown:
            return None
        return self.default_reward if self.reward is None else self.reward


class Books:
    """All visits of all sites, and every number that an agent must report about them."""

    def __init__(self, visits):
        self.visits = visits
        self.sites = sorted({visit.site for visit in visits})
        self.counted = [visit for visit in visits if visit.amount is not None]

    def select_evidence(self, arm, site=None):
        """The visits behind an arm's belief: no holdout, and perhaps of one site only."""
        return [
            visit
            for visit in self.counted
            if visit.arm == arm and visit.holdout is not True and site in (None, visit.site)
        ]

    def select_all_evidence(self, site=None):
        """The visits behind the beliefs of all arms."""
        return [visit for arm in ARMS for visit in self.select_evidence(arm, site)]

    def sum_evidence(self, site=None):
        """What /v1/evidence must say when all windows have closed."""
        rows = {}
        for arm in ARMS:
            visits = self.select_evidence(arm, site)
            amount = sum(visit.amount for visit in visits)
            sales = sum(visit.amount > 0 for visit in visits)
            statistic = (int(amount * ONE // LARGEST), sales * ONE)
            if visits:
                rows[arm] = (*statistic, *statistic, len(visits) * ONE, len(visits) * ONE)
        return rows

    def compute_mean(self, arm):
        """The mean revenue of a visit by the belief of docs/revenue.md, with shape 1."""
        visits = self.select_evidence(arm)
        sales = [visit.amount for visit in visits if visit.amount > 0]
        conversion = (PRIOR["alpha"] + len(sales)) / (PRIOR["alpha"] + PRIOR["beta"] + len(visits))
        average = (PRIOR["sale_scale"] + sum(sales)) / (PRIOR["sale_shape"] + len(sales) - 1)
        return conversion * average

    def average_side(self, holdout):
        """The count and the mean reward of one side of the uplift."""
        amounts = [visit.amount for visit in self.counted if visit.holdout is holdout]
        return len(amounts), sum(amounts) / len(amounts)

    def average_metric(self, metric, arm):
        """The count and mean of a metric of an arm: of the holdout, too, and of erased visits."""
        values = self._list_values(metric, arm)
        return len(values), sum(values) / len(values) if values else None

    def _list_values(self, metric, arm):
        return [
            visit.metrics[metric]
            for visit in self.visits
            if visit.arm == arm and metric in visit.metrics
        ]

    def bound_metric(self, metric, arm):
        """The interval of a metric of an arm, one of as many as there are arms."""
        values = self._list_values(metric, arm)
        squares = sum(value**2 for value in values)
        ends = (0.0, float(METRICS[metric]))
        error = METRIC_ERROR / len(ARMS)
        return bounded_mean_interval(len(values), sum(values), squares, ends, error)

    def find_limit(self, metric, arm):
        """The limit of an arm: of latency a number, of refunds by the control arm's interval."""
        if metric == "latency":
            return LATENCY_LIMIT
        return None if arm == CONTROL else REFUNDS_LIMIT * self.bound_metric(metric, CONTROL)[1]

    def is_breached(self, metric, arm):
        """Whether the whole interval is beyond the limit."""
        limit = self.find_limit(metric, arm)
        return limit is not None and self.bound_metric(metric, arm)[0] > limit


class Site:
    """The shop at one place: it sends visits to its agent, and writes down what is answered."""

    def __init__(self, name, url, experiment, token, seed):
        self.name = name
        self.experiment = experiment
        self.client = Client(url, timeout=30, patience=120, experiment=experiment, token=token)
        self.visits = []
        self.random = random.Random(seed)
        self.waiting = []  # visits whose reward comes too late
        self.late_rewards = 0  # refused because their windows had closed
        self.kinds = Counter()

    def serve_visit(self, number, visitor, allowed=None):
        """Ask, perhaps show, perhaps sell; some requests are sent twice."""
        chance = self.random.random
        inactive = chance() < 0.4
        visit = Visit(
            f"{self.name}-{number}",
            self.name,
            visitor,
            allowed or ARMS,
            time.time(),
            not inactive,
            default_reward=DEFAULT_REWARDS[self.experiment],
        )
        self.visits.append(visit)
        self._ask(visit, allowed)
        if chance() < 0.2:
            self._do_not_show(visit)
            return
        kind = self.random.choices(
            ["silent", "sale", "nothing", "late", "metric"], [30, 25, 20, 10, 15]
        )[0]
        self.kinds[kind] += 1
        if not visit.active and (kind in ("silent", "late") or chance() < 0.5):
            visit.active = self._send(visit, self.client.activate)
        if kind == "late" and visit.active:
            self.waiting.append(visit)
        if kind == "metric":
            self._measure(visit, refunds=0.0)
        if kind in ("sale", "nothing"):
            self._reward(visit, float(self.random.randint(1, 120)) if kind == "sale" else 0.0)
        if kind == "sale" and chance() < 0.5:
            self._measure(visit, refunds=float(chance() < 0.2))

    def _ask(self, visit, allowed):
        for _ in range(self._times()):
            made = self.client.pull(allowed, visit.id, visitor=visit.visitor, activate=visit.active)
            assert visit.arm in ("", made.arm)
            visit.arm, visit.probability = made.arm, made.probability
        visit.answered = time.time()
        assert visit.arm in visit.allowed
        # the hash behind the holdout is not documented: the agent says who is in it
        visit.holdout = self.client.decision(visit.id)["holdout"]

    def _do_not_show(self, visit):
        self.kinds["not shown"] += 1
        if not visit.active and self.random.random() > 0.3:
            return
        visit.cancelled = self._send(visit, self.client.cancel)
        if visit.cancelled:
            self._expect_conflict(self.client.update, visit.id, 1.0)
            self._expect_conflict(self.client.measure, visit.id, {"latency": 1})
            self._expect_conflict(self.client.activate, visit.id)

    def _reward(self, visit, amount):
        metrics = {"latency": float(self.random.randint(50, 400))}
        if self.random.random() < 0.5:
            metrics = None
        if not self._send(visit, self.client.update, amount, metrics):
            self.late_rewards += 1
            return
        visit.reward = amount
        visit.active = True
        visit.metrics |= metrics or {}
        self._expect_conflict(self.client.update, visit.id, amount + 1)
        self._expect_conflict(self.client.cancel, visit.id)

    def _measure(self, visit, **values):
        if not self._send(visit, self.client.measure, values):
            return
        visit.metrics |= values
        visit.active = True
        wrong = {name: 1 - value for name, value in values.items()}
        self._expect_conflict(self.client.measure, visit.id, wrong)
        self._expect_conflict(self.client.cancel, visit.id)

    def send_too_late(self):
        """Send what comes after the window: all of it is refused."""
        for visit in self.waiting:
            if not visit.erased:
                self._expect_conflict(self.client.update, visit.id, 5.0)
                self.late_rewards += 1
        for visit in self.visits:
            if visit.erased or self.random.random() < 0.7:
                continue
            self._expect_conflict(self.client.measure, visit.id, {"latency": 1023})
            if not visit.cancelled:
                self._expect_conflict(self.client.cancel, visit.id)
            if not visit.active:
                self._expect_conflict(self.client.activate, visit.id)
            if visit.reward is not None:
                assert not self.client.update(visit.id, visit.reward)

    def _send(self, visit, request, *arguments):
        """Whether a request was accepted; on a slow machine its window may have closed."""
        try:
            request(visit.id, *arguments)
        except Conflict:
            if time.time() < visit.asked + WINDOW:
                raise
            return False
        if self._times() == 2 and time.time() < visit.asked + WINDOW / 2:
            request(visit.id, *arguments)
        return True

    def _times(self):
        return 2 if self.random.random() < 0.2 else 1

    @staticmethod
    def _expect_conflict(request, *arguments):
        try:
            answer = request(*arguments)
        except Conflict:
            return
        raise AssertionError(f"a conflict was expected, and the answer was {answer!r}")

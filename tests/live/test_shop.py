"""Three real agents and a shop with books of its own: every number of theirs is in the books."""

import itertools
import random
import secrets
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from posse.live import Unknown
from posse.live.demo import create_process_sites
from tests.live.http.page.watching import watch as watch
from tests.live.loopback import wait_until
from tests.live.shop import (
    ARMS,
    CONTROL,
    DEFAULT_REWARDS,
    METRICS,
    WINDOW,
    Books,
    Site,
    write_tables,
)
from tests.live.shop_page import check_page

NAMES = ["berlin", "paris", "rome"]
VISITS = 60  # of each site before the pause
PAUSED_VISITS = 12
VISITORS = [f"u-{number}" for number in range(70)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("shop")


@pytest.fixture(scope="module")
def token(folder):
    file = folder / "operator.token"
    file.write_text(secrets.token_hex(32))
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def agents(folder, token):
    common = {
        "network": "shops",
        "tick_seconds": 0.2,
        "operators": ["berlin"],
        "operator_token": str(token),
    }
    made = create_process_sites(
        folder, [(0, 1), (1, 2)], [{"name": name, **common} for name in NAMES]
    )
    for agent in made:
        agent.file.write_text(agent.file.read_text() + write_tables())
        agent.start()
    for agent in made:
        agent.wait_until_ready()
    yield made
    for agent in made:
        agent.request_stop()
    for agent in made:
        agent.stop()


@pytest.fixture(scope="module")
def shops(agents, token):
    """The sites of each experiment, by its name."""
    with ExitStack() as stack:
        made = {
            experiment: [
                Site(agent.name, agent.url, experiment, token.read_text(), seed)
                for seed, agent in enumerate(agents)
            ]
            for experiment in DEFAULT_REWARDS
        }
        for site in itertools.chain(*made.values()):
            stack.enter_context(site.client)
        yield made


def serve_visits(sites, numbers, meanwhile=lambda: None):
    """Serve visits at all sites at once; visitors return at any of them."""

    def serve_site(site):
        visitors = random.Random(f"{site.name} {site.experiment} {numbers}")
        for number in numbers:
            visitor = visitors.choice(VISITORS) if number % 10 else None
            site.serve_visit(number, visitor, ["green", "blue"] if number % 12 == 5 else None)

    with ThreadPoolExecutor(len(sites)) as pool:
        served = [pool.submit(serve_site, site) for site in sites]
        meanwhile()
        for one in served:
            one.result()


def erase_visitor(sites):
    """Erase the most frequent visitor: open decisions are cancelled, sums of the rest stay."""
    visits = [visit for site in sites for visit in site.visits]
    visitors = Counter(visit.visitor for visit in visits if visit.visitor is not None)
    (erased, count), *_ = visitors.most_common(1)
    for site in sites:
        for visit in site.visits:
            if visit.visitor == erased:
                closed = site.client.decision(visit.id)["state"] == "closed"
                visit.erased = True
                visit.cancelled |= visit.reward is None and not closed
    assert sum(site.client.erase_visitor(erased)["erased"] for site in sites) == count


@pytest.fixture(scope="module")
def played(agents, shops):
    """The sites of each experiment after all visits, and after the last window has closed."""
    sites = list(itertools.chain(*shops.values()))

    def kill_paris():
        visited = next(site for site in sites if site.name == "paris").visits
        wait_until(lambda: len(visited) > VISITS // 3)
        agents[1].kill()  # SIGKILL, in the middle of its visits
        agents[1].start()

    serve_visits(sites, range(VISITS), meanwhile=kill_paris)
    for berlin, *_ in shops.values():
        berlin.client.pause(CONTROL, by="Ada", reason="broken on phones")
    wait_until(lambda: all(site.client.controls()["paused"] == [CONTROL] for site in sites))
    serve_visits(sites, range(VISITS, VISITS + PAUSED_VISITS))
    for berlin, *_ in shops.values():
        berlin.client.resume(CONTROL, by="Ada", reason="mended")
    wait_until(lambda: all(site.client.controls()["paused"] == [] for site in sites))
    for site in sites:
        paused = site.visits[VISITS:]
        assert all(visit.arm != CONTROL and visit.holdout is None for visit in paused)
    for three in shops.values():
        erase_visitor(three)

    last = max(visit.asked for site in sites for visit in site.visits)
    while time.time() < last + WINDOW:
        time.sleep(0.1)
    wait_until(lambda: all(count_unfinished(site) == 0 for site in sites))
    for site in sites:
        site.send_too_late()
    check_the_mix(sites)
    return shops


def read_books(sites):
    """The books of an experiment, once all agents have heard of all visits."""
    books = Books([visit for site in sites for visit in site.visits])
    counted = len(books.select_all_evidence())
    wait_until(lambda: all(site.client.audit()["in_network"] == counted for site in sites))
    return books


@pytest.mark.long
@pytest.mark.parametrize("experiment", DEFAULT_REWARDS)
def test_every_number_of_the_pages_is_in_the_books_of_the_shop(played, agents, watch, experiment):
    books = read_books(played[experiment])
    for agent, site in zip(agents, played[experiment], strict=True):
        page = watch(f"{agent.url}/#{experiment}")
        check_page(page, site, books)
        page.leave()


@pytest.mark.long
@pytest.mark.parametrize("experiment", DEFAULT_REWARDS)
def test_every_number_of_three_agents_is_in_the_books_of_the_shop(played, experiment):
    sites = played[experiment]
    books = read_books(sites)
    for site in sites:
        check_arms(site, books)
        check_measures(site, books)
        check_counters(site, restarted=site.name == "paris")
        for visit in site.visits:
            check_decision(site, visit)


def count_unfinished(site):
    shown = site.client.experiments()["experiments"][site.experiment]
    return shown["open_decisions"] + shown["inactive_decisions"]


def check_the_mix(sites):
    """All that the test is about did happen, and a visitor is on one side at every site."""
    kinds = sum((site.kinds for site in sites), start=Counter())
    assert min(kinds[kind] for kind in ("silent", "sale", "nothing", "late", "metric")) > 10
    visits = [(site.experiment, visit) for site in sites for visit in site.visits]
    assert 0.1 < kinds["not shown"] / len(visits) < 0.3
    sites_of_visitor = defaultdict(set)
    sides_of_visitor = defaultdict(set)
    for experiment, visit in visits:
        if visit.holdout:
            assert (visit.arm, visit.probability) == (CONTROL, 1.0)
        if CONTROL not in visit.allowed:
            assert visit.holdout is None
        if visit.visitor is not None:
            sites_of_visitor[visit.visitor].add(visit.site)
            sides_of_visitor[experiment, visit.visitor].add(visit.holdout)
    assert max(map(len, sites_of_visitor.values())) == len(NAMES)
    assert all(len(sides - {None}) <= 1 for sides in sides_of_visitor.values())


def check_arms(site, books):
    evidence = site.client.evidence()
    assert evidence["held"] == books.sum_evidence()
    assert evidence["own"] == books.sum_evidence(site.name)
    own = sum(len(books.select_evidence(arm, site.name)) for arm in ARMS)
    network = sum(len(books.select_evidence(arm)) for arm in ARMS)
    audit = {"counted": own, "in_evidence": own, "in_network": network}
    assert site.client.audit() == audit
    for arm, shown in site.client.arms().items():
        assert shown["pulls_here"] == len(books.select_evidence(arm, site.name))
        assert shown["pulls_in_network"] == len(books.select_evidence(arm))
        assert shown["open_here"] == shown["open_in_network"] == 0
        assert shown["mean"] == pytest.approx(books.compute_mean(arm), rel=1e-9)


def check_measures(site, books):
    uplift = site.client.uplift()
    means = []
    for side, holdout in (("bandit", False), ("control", True)):
        count, mean = books.average_side(holdout)
        assert uplift[side]["decisions"] == count
        assert uplift[side]["mean"] == pytest.approx(mean, rel=1e-12)
        means.append(mean)
    assert uplift["uplift"] == pytest.approx(means[0] - means[1], rel=1e-9)
    shown = {(row["metric"], row["arm"]): row for row in site.client.guardrails()}
    assert list(shown) == list(itertools.product(METRICS, ARMS))
    for (metric, arm), row in shown.items():
        count, mean = books.average_metric(metric, arm)
        assert row["decisions"] == count, (metric, arm)
        assert row["mean"] == pytest.approx(mean, rel=1e-12)
        ends = (row["low"], row["high"])
        assert ends == pytest.approx(books.bound_metric(metric, arm), rel=1e-6, abs=1e-9)
        limit = books.find_limit(metric, arm)
        assert row["limit"] == (None if limit is None else pytest.approx(limit, rel=1e-6))
        assert row["breached"] == books.is_breached(metric, arm)


def check_counters(site, restarted):
    shown = site.client.experiments()["experiments"][site.experiment]
    if not restarted:  # these count since the start
        assert shown["decisions"] == len(site.visits)
        assert shown["rewards"] == sum(visit.reward is not None for visit in site.visits)
    assert shown["late_rewards"] == site.late_rewards
    events = [(event["kind"], event["text"]) for event in site.client.events()]
    commands = [event for event in events if event[0] in ("pause", "resume")]
    assert commands == [
        ("pause", f"{CONTROL} is paused in the whole network by berlin (Ada: broken on phones)"),
        ("resume", f"{CONTROL} is no longer paused (Ada: mended)"),
    ]
    assert [kind for kind, _ in events].count("restart") == restarted


def check_decision(site, visit):
    if visit.erased:
        with pytest.raises(Unknown):
            site.client.decision(visit.id)
        return
    shown = site.client.decision(visit.id)
    times = {key: shown.pop(key) for key in ("time", "rewarded", "closed")}
    assert shown == {
        "decision": visit.id,
        "arm": visit.arm,
        "probability": visit.probability,
        "state": "cancelled" if visit.cancelled else "closed",
        "reward": visit.amount,
        "context": None,
        "visitor": visit.visitor,
        "holdout": visit.holdout,
        "metrics": visit.metrics or None,
    }
    assert visit.asked <= times["time"] <= visit.answered
    assert (times["rewarded"] is not None) == (visit.reward is not None)
    assert times["closed"] is not None

"""What memory cannot hold is refused before it is allocated, with advice that helps.

Machines differ and tests must not fill them: here a machine has 100 MB.
"""

import itertools
import re
import tracemalloc

import networkx  # noqa: F401  (whose own import is not what is measured)
import numpy as np
import pytest

import posse
from posse.bandits import NormalMeans, NormalWeights, UniformMeans, UnitFeatures
from posse.families import Linear
from posse.lab import validation
from posse.networks import graphs

TS = posse.ThompsonSampling()
DEC_TS = posse.Decentralized(TS)
ALLOCATED = 10e6  # bytes, at most, by what is refused


@pytest.fixture(autouse=True)
def _small_machine(monkeypatch):
    for module in (validation, graphs):
        monkeypatch.setattr(module, "detect_memory", lambda: 0.1)


def refusal(function, *arguments, **options):
    """The sentence of a refusal; little may have been allocated until then."""
    # the first call imports modules, whose memory is not that of the simulation
    with pytest.raises(ValueError, match="memory"):
        function(*arguments, **options)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"of 0\.1 GB of memory: ") as caught:
            function(*arguments, **options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < ALLOCATED
    return str(caught.value)


def simulate(bandit, network, algorithm=DEC_TS, **options):
    options = {"horizon": 1, "runs": 1, "engine": "reference"} | options
    return posse.simulate(bandit, network, algorithm, **options)


def test_too_many_arms():
    bandit = posse.Bandit.bernoulli(UniformMeans(10**7))
    sentence = refusal(simulate, bandit, posse.networks.cycle(100))
    assert sentence.endswith("take fewer than 10000000 arms or 100 agents")
    assert "record" not in sentence


@pytest.mark.parametrize(
    ("build", "means"),
    [
        (posse.Bandit.bernoulli, UniformMeans(10**7)),
        (posse.Bandit.gaussian, NormalMeans(10**7)),
        (lambda means: posse.Bandit.gaussian(means, site_sd=0.1), NormalMeans(10**7)),
    ],
)
def test_the_means_and_beliefs_of_one_run_count_too(build, means):
    """The pulls alone, 40 MB, would fit."""
    sentence = refusal(lambda: simulate(build(means), posse.networks.cycle(1)))
    assert sentence.endswith("take fewer arms")


def draw_contexts(generator, size):
    return generator.standard_normal((*size, 20))


@pytest.mark.parametrize(
    "algorithm",
    [DEC_TS, posse.Isolated(TS), posse.Centralized(TS), posse.algorithms.CONTEXTUAL["lin-ucb"]()],
)
def test_beliefs_with_contexts(algorithm):
    """230 numbers a belief: 20 features and their Gram matrix."""
    bandit = posse.ContextualBandit(Linear(), draw_contexts, NormalWeights(100))
    sentence = refusal(simulate, bandit, posse.networks.cycle(1000), algorithm)
    assert sentence.startswith("one run of 1000 agents, 100 arms, 20 features takes")
    assert sentence.endswith("take fewer agents or arms or features")


def test_features_of_arms():
    unit = UnitFeatures(1000, 60)
    bandit = posse.ContextualBandit(Linear(shared=True), unit, NormalWeights(1000))
    refusal(simulate, bandit, posse.networks.cycle(1000))


@pytest.mark.parametrize(
    ("graph", "arguments", "advice"),
    [
        ("random_geometric", {"agents": 3000, "radius": 0.5, "seed": 1}, "radius"),
        ("random_geometric", {"agents": 3000, "radius": 2.0, "seed": "run"}, "radius"),
        ("erdos_renyi", {"agents": 3000, "p": 0.2}, "p"),
        ("watts_strogatz", {"agents": 3000, "k": 1000, "p": 0.1}, "k"),
        ("barabasi_albert", {"agents": 3000, "m": 500}, "m"),
        ("random_regular", {"agents": 3000, "degree": 500}, "degree"),
        ("regular_ring", {"agents": 10_000, "k": 1000}, "k"),
    ],
)
def test_graphs_of_too_many_links(graph, arguments, advice):
    sentence = refusal(getattr(posse.networks, graph), **arguments)
    assert sentence.endswith(f"take fewer agents or a smaller {advice}")


def test_the_expected_links_of_a_geometric_graph():
    """Of 2000 agents, within four standard errors of a count of pairs."""
    places = np.random.default_rng(3).uniform(size=(2, 200_000, 2))
    near = np.hypot(*(places[0] - places[1]).T)
    for radius in (0.1, 0.5, 1.0):
        share = np.mean(near <= radius)
        error = 4 * np.sqrt(share * (1 - share) / len(near))
        assert graphs.link_probability(radius) == pytest.approx(share, abs=error)
    assert graphs.link_probability(1.2) == graphs.link_probability(1.0)  # at least


@pytest.mark.parametrize("options", [{}, {"record": 10**7}])
def test_a_horizon_of_too_many_rounds(options):
    """The curve of 80 MB would fit, but not beside the list of rounds."""
    bandit, network = posse.Bandit.bernoulli([0.5, 0.4]), posse.networks.cycle(4)
    sentence = refusal(simulate, bandit, network, horizon=10**7, **options)
    assert sentence.endswith("memory: keep fewer rounds with record=1000")
    sentence = refusal(
        lambda: posse.Experiment(bandit, network, {"a": DEC_TS}, 10**7, runs=1, **options).run()
    )
    assert sentence.endswith("memory: keep fewer rounds with record=1000")


def test_advice_that_is_followed_helps_and_is_not_too_careful():
    bandit, network = posse.Bandit.bernoulli([0.5, 0.4]), posse.networks.cycle(50)
    advised = set()
    for runs, points, keep in itertools.product(
        (1, 300, 10**6), (1, 3000, 10**7), ((), ("agents",))
    ):

        def check(runs=runs, points=points, keep=keep):
            validation.check_size(bandit, network, runs, points, keep)

        try:
            check()
        except ValueError as error:
            sentence = str(error)
        else:
            continue
        if found := re.search(r"take at most (\d+) runs", sentence):
            check(runs=int(found[1]))
            with pytest.raises(ValueError, match="runs is"):
                check(runs=int(found[1]) + 1)
            advised.add("runs")
        if found := re.search(r"record=(\d+)", sentence):
            check(points=int(found[1]))
            advised.add("record")
        if "keep less" in sentence:
            check(keep=())
            advised.add("keep")
        if sentence.endswith("take fewer runs and keep fewer rounds with record="):
            check(runs=1, points=1, keep=())
            advised.add("both")
    assert advised == {"runs", "record", "keep", "both"}

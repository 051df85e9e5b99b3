"""What the report says of a panel, on small outcomes made by hand."""

import numpy as np
import pytest

import posse
from posse.lab.jobs.results_cache import PartStore
from posse.lab.paper import analysis, claims
from posse.lab.paper.panels import IDS, PanelOutcome, load_panel, run_panel
from posse.lab.results import Result

TIMES = np.unique(np.geomspace(1, 800, 40).astype(int))


def outcome(id_, finals, slopes=None, runs=30, spread=0.1, seed=0):
    """Curves a + b ln t that end at the given values, with a little noise."""
    rng = np.random.default_rng(seed)
    results = {}
    for name in load_panel(id_).curves:
        end = finals[name] + spread * rng.normal(size=(runs, 1))
        slope = (slopes or {}).get(name, finals[name] / 20)
        regret = np.maximum(end + slope * np.log(TIMES / TIMES[-1]), 0)
        n_agents = load_panel(id_).curves[name].network.n_agents
        n_arms = load_panel(id_).bandit.n_arms
        pulls = np.zeros((runs, n_agents, n_arms), int)
        pulls[:, :, 0] = 700
        pulls[:, :, 1] = 100
        results[name] = Result(TIMES, regret, pulls, "reference", {})
    return PanelOutcome(load_panel(id_), results, 0)


class TestTable:
    def test_tails_beside_the_mean(self, tmp_path):
        made = run_panel(load_panel("fig3"), PartStore(tmp_path), runs=12)
        rows = {row.algorithm: row for row in analysis.score_panel(made).rows}
        for name, result in made.results.items():
            row, final = rows[name], result.regret[:, -1]
            assert row.regret.mean == pytest.approx(final.mean())
            assert row.regret.low < row.regret.mean < row.regret.high
            assert row.tail.percentile_95 == pytest.approx(np.percentile(final, 95))
            gap = 0.4 * (800 - result.pulls[:, :, 0])  # of each agent
            assert row.worst_agent == pytest.approx(gap.max(axis=1).mean())
            assert row.worst_agent > row.regret.mean
            assert row.tail.wrong_leader == 0.0

    def test_lock_in_is_seen(self):
        made = outcome("fig3", dict.fromkeys(load_panel("fig3").curves, 5.0), runs=10)
        pulls = made.results["3-ring"].pulls.copy()
        pulls[:3, :, [0, 4]] = pulls[:3, :, [4, 0]]
        locked = Result(TIMES, made.results["3-ring"].regret, pulls, "reference", {})
        made = PanelOutcome(made.panel, {**made.results, "3-ring": locked}, 0)
        rows = analysis.score_panel(made).rows
        shares = {row.algorithm: row.tail.wrong_leader for row in rows}
        assert shares == {"complete": 0, "5-ring": 0, "3-ring": 0.3, "grid 8 x 8": 0}

    def test_random_means_are_those_of_each_run(self, tmp_path):
        """Regret from pulls and gaps is the regret that the engine recorded."""
        made = run_panel(load_panel("fig2a"), PartStore(tmp_path), runs=3)
        for name, result in made.results.items():
            from_pulls = np.einsum("rnk,rk->rn", result.pulls, made.gaps_of(name)).mean(axis=1)
            np.testing.assert_allclose(from_pulls, result.regret[:, -1], rtol=1e-9)


def test_comparisons_are_corrected_for_all_of_them():
    ends = {"complete": 5.0, "5-ring": 5.0, "3-ring": 9.0, "grid 8 x 8": 9.05}
    made = {"fig3": outcome("fig3", ends)}
    pairs = analysis.score_panels(made)["fig3"].pairs
    assert [(pair.first, pair.second) for pair in pairs] == made["fig3"].panel.pairs_to_compare()
    assert [pair.is_significant for pair in pairs] == [False, True, False]
    mean, _, low, high = pairs[1].difference
    assert mean == pytest.approx(-4, abs=0.2)
    assert low < mean < high


def test_the_least_slope():
    """16 gaps of 0.4 over 64 agents and a divergence of 0.4^2/2."""
    made = outcome("fig5b", dict.fromkeys(load_panel("fig5b").curves, 8.0))
    assert analysis.shared_least_slope(made).slope == pytest.approx(16 * 0.4 / (64 * 0.08))
    sizes = outcome("fig4a", dict.fromkeys(load_panel("fig4a").curves, 8.0))
    assert analysis.shared_least_slope(sizes) is None


class TestClaims:
    def row(self, text, stated, published=None):
        rows = claims.judge_claims(stated, published or {})
        (row,) = [row for row in rows if text in row.claim]
        return row

    def verdict(self, text, stated, published=None):
        return self.row(text, stated, published).verdict

    def test_orders(self):
        text = "falls as connectivity rises"
        ends = {"complete": 5.0, "5-ring": 6.0, "3-ring": 7.0, "grid 8 x 8": 8.0}
        right = {"fig3": outcome("fig3", ends)}
        wrong = {"fig3": outcome("fig3", ends | {"5-ring": 7.5})}
        same = {"fig3": outcome("fig3", ends | {"5-ring": 7.0})}
        assert self.verdict(text, right) == claims.HOLDS
        assert self.verdict(text, wrong) == claims.FAILS
        assert self.verdict(text, same) == "undecided at 30 runs"
        assert self.verdict(text, wrong, right) == claims.ONLY_PUBLISHED
        # what the stated runs cannot tell, the published ones do not settle
        assert self.verdict(text, same, right) == "undecided at 30 runs"
        assert self.verdict(text, wrong, same) == claims.FAILS
        assert claims.find_failing_panels(wrong) == {"fig3"}
        falling = {
            id_: outcome(id_, {name: 9.0 - i for i, name in enumerate(load_panel(id_).curves)})
            for id_ in ("fig4a", "fig4b")
        }
        assert claims.find_failing_panels(falling) == set()
        assert self.verdict(text, {}) == claims.UNTESTED

    @pytest.mark.parametrize(
        ("runs", "verdict"), [(100, "undecided at 100 runs"), (1000, claims.HOLDS)]
    )
    def test_more_runs_decide(self, runs, verdict):
        """Figure 4b's steps are as small as a fifth of the spread: 100 runs cannot tell them."""
        ends = {"N = 36": 4.09, "N = 64": 3.7, "N = 81": 3.5, "N = 100": 3.3, "N = 144": 3.06}
        made = {id_: outcome(id_, ends, runs=runs, spread=0.9) for id_ in ("fig4a", "fig4b")}
        assert self.verdict("falls as the number of agents rises", made) == verdict

    def test_logarithms(self):
        text = "Under gossip, regret is logarithmic"
        ends = {"static cycle": 10.0, "static complete": 8.0, "gossip": 30.0, "isolated TS": 190.0}
        right = outcome("fig5a", ends, {"gossip": 2.0})
        assert self.verdict(text, {"fig5a": right}) == claims.HOLDS
        assert "rounds 286 to 800" in self.row(text, {"fig5a": right}).detail
        power = self.with_gossip(right, lambda end: end * (TIMES / 800) ** 0.7)
        assert self.verdict(text, power) == claims.FAILS
        assert self.verdict("higher than on static", power) == claims.HOLDS

    def test_a_slope_below_the_least_is_named_and_explained(self):
        """0.5 per unit of ln t, where 64 agents must in the end have 1.25."""
        text = "Under gossip, regret is logarithmic"
        ends = {"static cycle": 10.0, "static complete": 8.0, "gossip": 30.0, "isolated TS": 190.0}
        row = self.row(text, {"fig5a": outcome("fig5a", ends, {"gossip": 0.5})})
        assert row.verdict == claims.BELOW
        assert "least possible in the long run is 1.25" in row.detail
        assert "have explored more than they had to" in row.detail

    def test_slopes_that_differ_too_much_from_run_to_run_decide_nothing(self):
        text = "Under gossip, regret is logarithmic"
        ends = {"static cycle": 10.0, "static complete": 8.0, "gossip": 30.0, "isolated TS": 190.0}
        rng = np.random.default_rng(1)
        bends = 2 * rng.normal(size=(30, 1))
        x = np.log(TIMES / 800)
        loose = self.with_gossip(outcome("fig5a", ends), lambda end: end + 2 * x + bends * x**2)
        assert self.verdict(text, loose) == "undecided at 30 runs"

    def with_gossip(self, made, curve):
        gossip = made.results["gossip"]
        regret = curve(gossip.regret[:, -1:])
        new = Result(TIMES, regret, gossip.pulls, "reference", {})
        return {"fig5a": PanelOutcome(made.panel, {**made.results, "gossip": new}, 0)}

    def test_the_same_regret(self):
        text = "is that of the static complete network"
        ends = {"p = 0": 8.0, "p = 0.3": 8.01, "p = 0.8": 9.0, "p = 0.9": 10.0}
        assert self.verdict(text, {"fig5b": outcome("fig5b", ends)}) == claims.HOLDS
        other = outcome("fig5b", ends | {"p = 0.3": 8.95})
        assert self.verdict(text, {"fig5b": other}) == claims.FAILS
        # no difference is seen, but one of more than a tenth could be there
        loose = outcome("fig5b", ends, spread=3.0)
        assert self.verdict(text, {"fig5b": loose}) == "undecided at 30 runs"

    def test_tenfold(self):
        text = "almost 10x"
        ours = {"dec-TS": 5.0, "dec-Bayes-UCB": 4.0}
        more = {"coop-UCB, gamma 1.01": 80.0, "coop-UCB, gamma 2": 80.0}
        for other, verdict in ((60, claims.HOLDS), (30, claims.FAILS)):
            ends = ours | more | {"DDUCB": other}
            made = {id_: outcome(id_, ends) for id_ in ("fig2a", "fig2b")}
            assert self.verdict(text, made) == verdict
        near = {id_: outcome(id_, ours | more | {"DDUCB": 40}, spread=1) for id_ in made}
        assert self.verdict(text, near) == "undecided at 30 runs"

    def test_isolated_agents_somewhere(self):
        names = load_panel("fig1a").curves
        low = dict.fromkeys(names, 100.0) | {"isolated TS": 50.0}
        high = dict.fromkeys(names, 100.0) | {"isolated TS": 150.0}
        for text, rival in (("networks coop-UCB", "coop-UCB"), ("networks DDUCB", "DDUCB")):
            some = {name: 30.0 for name in names if not name.startswith(rival)}
            here = {"fig1a": outcome("fig1a", low), "fig1b": outcome("fig1b", high)}
            nowhere = {id_: outcome(id_, high) for id_ in here}
            assert self.verdict(text, here) == claims.HOLDS
            assert self.verdict(text, nowhere) == claims.FAILS
            # only this rival counts
            one = {id_: outcome(id_, low | some | {"isolated TS": 150.0}) for id_ in here}
            assert self.verdict(text, one) == claims.FAILS
            same = {id_: outcome(id_, low | {"isolated TS": 100.0}) for id_ in here}
            assert self.verdict(text, same) == "undecided at 30 runs"

    def test_horizontal(self):
        ends = dict.fromkeys(load_panel("fig2a").curves, 20.0)
        text = "both decentralized algorithms are almost horizontal"
        # a + b ln t: the later half of the rounds adds b ln 2
        for slope, verdict in ((1.0, claims.HOLDS), (6.0, claims.FAILS)):
            slopes = dict.fromkeys(ends, slope)
            made = {id_: outcome(id_, ends, slopes) for id_ in ("fig2a", "fig2b")}
            assert self.verdict(text, made) == verdict
        # one rising curve is enough; coop-UCB does not count
        rising = {"DDUCB": 6.0}
        made = {id_: outcome(id_, ends, dict.fromkeys(ends, 1.0) | rising) for id_ in made}
        assert self.verdict(text, made) == claims.FAILS
        rising = {"coop-UCB, gamma 2": 6.0}
        made = {id_: outcome(id_, ends, dict.fromkeys(ends, 1.0) | rising) for id_ in made}
        assert self.verdict(text, made) == claims.HOLDS

    def test_horizontal_sooner(self):
        ends = dict.fromkeys(load_panel("fig2a").curves, 20.0)
        text = "become horizontal much sooner"
        # 90% of 20 are reached 2 = b ln(T/t) before the end
        for rival, verdict in ((2.0, claims.FAILS), (20.0, claims.HOLDS)):
            slopes = dict.fromkeys(ends, 2.0) | {"DDUCB": rival}
            made = {id_: outcome(id_, ends, slopes) for id_ in ("fig2a", "fig2b")}
            assert self.verdict(text, made) == verdict
        (row,) = (r for r in claims.judge_claims(made, {}) if text in r.claim)
        expected = TIMES[np.searchsorted(TIMES, 800 * np.exp(-1))]
        assert f"dec-TS {expected:,}" in row.detail

    def test_order_of_spectral_gaps(self):
        text = "The larger the spectral gap"
        gaps = {n: c.network.spectral_gap for n, c in load_panel("fig3").curves.items()}
        # the grid mixes faster than the ring with three neighbours on each side
        assert gaps["grid 8 x 8"] > gaps["3-ring"]
        ends = {"complete": 5.0, "5-ring": 6.0, "grid 8 x 8": 7.0, "3-ring": 8.0}
        assert self.verdict(text, {"fig3": outcome("fig3", ends)}) == claims.HOLDS
        ends |= {"grid 8 x 8": 9.0}
        assert self.verdict(text, {"fig3": outcome("fig3", ends)}) == claims.FAILS

    def test_every_claim_is_tested_on_the_paper_itself(self, tmp_path, monkeypatch):
        """All panels with two runs and short horizons: no test of a claim breaks."""
        ids = {id_ for claim in claims.CLAIMS for id_ in claim.panels}
        assert ids == set(IDS) - {"published"}
        made = {}
        for id_ in ids:
            short = type(load_panel(id_))(**{**vars(load_panel(id_)), "horizon": 60})
            made[id_] = run_panel(short, PartStore(tmp_path), runs=2)
        rows = claims.judge_claims(made, {})
        assert len(rows) == len(claims.CLAIMS)
        assert claims.UNTESTED not in {row.verdict for row in rows}


def test_a_bandit_with_drawn_means_has_no_least_slope():
    ends = {"dec-TS": 5.0, "dec-Bayes-UCB": 5.0, "DDUCB": 50.0}
    ends |= {"coop-UCB, gamma 1.01": 60.0, "coop-UCB, gamma 2": 70.0}
    assert analysis.shared_least_slope(outcome("fig2a", ends)) is None
    assert isinstance(load_panel("fig2a").bandit.means, posse.bandits.UniformMeans)

"""The schema of contexts: columns, what is unknown or clipped, and refusals."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import posse
from posse.contexts import Category, Contexts, Flag, Number

SHOP = {
    "country": ["de", "fr", "it"],
    "returning": "flag",
    "basket": (0, 500),
    "hour": {"low": 0, "high": 24, "optional": True},
}


def test_columns_are_the_intercept_and_then_the_fields_in_their_order():
    contexts = Contexts(SHOP)
    assert contexts.columns == (
        *("intercept", "country=de", "country=fr", "country=it"),
        *("returning", "basket", "hour", "hour missing"),
    )
    assert contexts.n_features == 8
    assert posse.Contexts is Contexts


@pytest.mark.parametrize(
    ("context", "x", "unknown", "clipped"),
    [
        (
            {"country": "fr", "returning": True, "basket": 125, "hour": 18},
            [1, 0, 1, 0, 1, -0.5, 0.5, 0],
            (),
            (),
        ),
        (
            {"country": "it", "returning": False, "basket": 500.0},
            [1, 0, 0, 1, -1, 1, 0, 1],
            (),
            (),
        ),
        (
            {"country": "uk", "returning": True, "basket": 1e9, "hour": None},
            [1, 0, 0, 0, 1, 1, 0, 1],
            ("country",),
            ("basket",),
        ),
        (
            {"country": "de", "returning": True, "basket": -1, "hour": 25},
            [1, 1, 0, 0, 1, -1, 1, 0],
            (),
            ("basket", "hour"),
        ),
    ],
)
def test_a_context_becomes_columns_and_says_what_was_unknown_or_clipped(
    context, x, unknown, clipped
):
    found = Contexts(SHOP).features(context)
    np.testing.assert_array_equal(found.x, x)
    assert (found.unknown, found.clipped) == (unknown, clipped)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"basket": None}, "context.basket is missing"),
        ({"country": 3}, "context.country must be text, got 3"),
        ({"returning": 1}, "context.returning must be true or false, got 1"),
        ({"basket": "31"}, "context.basket must be a number, got '31'"),
        ({"basket": True}, "context.basket must be a number, got True"),
        ({"basket": float("nan")}, "context.basket must be a finite number, got nan"),
        ({"hour": float("inf")}, "context.hour must be a finite number, got inf"),
        ({"baskt": 3}, "context: 'baskt' is unknown: did you mean 'basket'?"),
    ],
)
def test_bad_contexts_are_refused_with_one_sentence(change, sentence):
    context = {"country": "fr", "returning": True, "basket": 125} | change
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}") as refused:
        Contexts(SHOP).features(context)
    assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match="context must be a table of names and values, got 'de'"):
        Contexts(SHOP).features("de")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (3, "contexts must be a table of fields"),
        ({"a": ["x", "x"]}, "contexts.a must be different names"),
        ({"a": []}, "contexts.a must be different names"),
        ({"a": [1, 2]}, "contexts.a names must be printable text, got 1"),
        ({"a": ["x" * 201]}, "contexts.a names must have at most 200 characters"),
        ({"a\n<b>": "flag"}, r"contexts: names must be printable text, got 'a\n<b>'"),
        ({"": "flag"}, "contexts: names must be printable text, got ''"),
        ({"a": "flg"}, 'contexts.a must be a list of categories, "flag", or a range'),
        ({"a": {"high": 3}}, "contexts.a must have a kind"),
        ({"a": {"low": 3}}, "contexts.a high is missing"),
        ({"a": {"low": 3, "high": 3}}, "contexts.a high must be a finite number above 3"),
        ({"a": {"low": 0, "high": 3, "optinal": True}}, "contexts.a key 'optinal' is unknown"),
        ({"a": {"low": 0, "high": 3, "optional": 1}}, "contexts.a optional must be true or false"),
        ({"a": {"flag": 0.5}}, "contexts.a flag must be true as a key"),
        ({"a": {"categories": "de"}}, "contexts.a categories must be a list of names, got 'de'"),
        ({"a": {"categories": ["x"], "shares": [0]}}, "contexts.a shares must be one for each"),
        ({"a": {"categories": ["x"], "shares": [1, 1]}}, "contexts.a shares must be one for each"),
        ({"a": ["b"], "a=b": "flag"}, "contexts must have different columns"),
        (
            {"a": [str(i) for i in range(64)]},
            "contexts have 65 columns, the intercept among them, at most 64: merge rare categories",
        ),
    ],
)
def test_bad_schemas_are_refused_with_one_sentence(fields, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}") as refused:
        Contexts(fields)
    assert "\n" not in str(refused.value)


def test_names_that_are_html_are_names():
    contexts = Contexts({"<b>": ["<script>alert(1)</script>"]})
    assert contexts.columns[1] == "<b>=<script>alert(1)</script>"


def test_a_schema_is_a_value_that_comes_back_from_plain_data():
    contexts = Contexts(
        SHOP
        | {
            "new": Flag(share=0.2, optional=True, missing=0.4),
            "device": Category(("phone", "desk"), shares=(3, 1)),
            "age": Number(0, 9, optional=True, missing=0.0),
        }
    )
    assert Contexts(contexts.to_data()) == contexts
    assert pickle.loads(pickle.dumps(contexts)) == contexts
    assert eval(repr(contexts)) == contexts
    assert len({contexts, Contexts(contexts.to_data())}) == 1
    assert Contexts(SHOP | {"country": ["fr", "de", "it"]}) != Contexts(SHOP)


def test_draws_have_the_shares_of_the_schema():
    contexts = Contexts(
        {
            "country": {"categories": ["de", "fr", "it"], "shares": [0.5, 0.3, 0.2]},
            "new": Flag(share=0.8),
            "basket": (10, 20),
            "hour": Number(0, 24, optional=True, missing=0.25),
        }
    )
    n = 40_000
    x = contexts(np.random.default_rng(0), (4, n // 4)).reshape(n, -1)
    assert np.all(x[:, 0] == 1)
    assert np.all(x[:, 1:4].sum(axis=1) == 1)
    np.testing.assert_allclose(x[:, 1:4].mean(axis=0), [0.5, 0.3, 0.2], atol=0.015)
    np.testing.assert_allclose(x[:, 4].mean(), 0.6, atol=0.03)
    np.testing.assert_allclose(np.quantile(x[:, 5], [0, 0.25, 1]), [-1, -0.5, 1], atol=0.03)
    missing = x[:, 7] == 1
    np.testing.assert_allclose(missing.mean(), 0.25, atol=0.015)
    assert np.all(x[missing, 6] == 0)
    assert np.all(x[~missing, 6] != 0)

"""Content ids: deterministic, injective below the limit, safe, and equal to a second derivation of the
rule.
"""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hibor.discovery import sanitize_content_id
from hibor.discovery.ids import Namespace, cut_head, escape, namespace_prefix, unescape

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
tricky = st.text(st.sampled_from("ab09-_.%:/ 慧研😀e\u0301\u0308%4"), min_size=1, max_size=140)
ids = texts | tricky


def expected(text: str) -> str:
    """The rule of design 6 by way of the standard library: RFC 3986 quoting, with `~` not spared."""
    escaped = quote(text, safe="").replace("~", "%7E")
    if len(escaped) <= 120:
        return escaped
    head = escaped[:102]
    while head and (head[-1] == "%" or head[-2:-1] == "%"):
        head = head[:-1]
    return f"{head}%_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@given(ids)
@example("a" * 120)
@example("a" * 121)
@example("a" * 101 + "%" * 10)
@example("a" * 100 + "研" * 10)
@example("~")
def test_equals_the_rule_derived_another_way(text: str) -> None:
    assert sanitize_content_id(text) == expected(text)


@given(ids)
def test_is_safe_short_and_the_same_every_time(text: str) -> None:
    content_id = sanitize_content_id(text)
    assert content_id == sanitize_content_id(text)
    assert len(content_id) <= 120
    assert "::" not in content_id
    assert content_id.isascii()
    assert set(content_id) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.%")


@given(ids)
def test_below_the_limit_the_text_comes_back_so_no_two_meet(text: str) -> None:
    content_id = sanitize_content_id(text)
    if cut_head(content_id) is None:
        assert unquote(content_id) == text
        assert unescape(content_id) == text


@given(ids, ids)
def test_two_ids_meet_only_if_they_are_one(one: str, other: str) -> None:
    assert (sanitize_content_id(one) == sanitize_content_id(other)) is (one == other)


@given(ids)
def test_cut_ids_never_look_like_uncut_ones(text: str) -> None:
    long_id = sanitize_content_id(text * 130)
    assert cut_head(long_id) is not None
    assert unescape(long_id) is None
    assert sanitize_content_id(long_id) != long_id


@pytest.mark.parametrize(("plain", "head_length"), [(98, 101), (99, 102), (100, 100), (101, 101), (102, 102)])
def test_the_cut_never_divides_an_escape(plain: int, head_length: int) -> None:
    head = cut_head(sanitize_content_id("a" * plain + "/" * 30))
    assert head == ("a" * plain + "%2F" * 2)[:head_length]


@given(st.tuples(ids, ids), st.tuples(ids, ids))
@example(("ab", "c_d"), ("ab_c", "d"))
@example(("1", "1:x"), ("11", ":x"))
@example(("a", "1:b"), ("a1", ":b"))
def test_keys_and_ids_never_run_into_each_other(one: tuple[str, str], other: tuple[str, str]) -> None:
    made = [sanitize_content_id(namespace_prefix(key) + text) for key, text in (one, other)]
    assert (made[0] == made[1]) is (one == other)


@given(ids, ids)
def test_a_namespace_knows_its_own_short_ids_and_no_others(key: str, text: str) -> None:
    own = Namespace(namespace_prefix(key))
    content_id = sanitize_content_id(namespace_prefix(key) + text)
    if len(escape(namespace_prefix(key))) <= 100:
        assert own.certainly_holds(content_id)
    assert not Namespace(namespace_prefix(key + "x")).certainly_holds(content_id)
    assert not Namespace("").certainly_holds(content_id)


@given(ids, ids, ids)
def test_a_namespace_never_claims_another_keys_id(key: str, other: str, text: str) -> None:
    content_id = sanitize_content_id(namespace_prefix(other) + text)
    if key != other:
        assert not Namespace(namespace_prefix(key)).certainly_holds(content_id)


@pytest.mark.parametrize("text", ["\ud800", "abc\udfff", "x" * 130 + "\ud800"])
def test_a_lone_surrogate_has_no_id(text: str) -> None:
    with pytest.raises(UnicodeEncodeError):
        sanitize_content_id(text)


@pytest.mark.parametrize("value", [1, b"a", ["a"], 1.5, True])
def test_only_text_has_an_id(value: Any) -> None:
    with pytest.raises(TypeError):
        sanitize_content_id(value)


def test_the_empty_id_meets_no_other() -> None:
    assert sanitize_content_id("") == sanitize_content_id(None) == "%untitled"
    assert sanitize_content_id("%untitled") == "%25untitled"

"""Every word has its three sentences in both languages, and each language is only itself."""

from __future__ import annotations

import re
import string
from typing import Any

import pytest

from generated.codes import CODES
from generated.failures import FAILURE_CODES
from generated.governance import COMMAND_EXITS, RUN_STATUSES, STOP_WORDS
from hibor.cli import COMMANDS
from hibor.messages import (
    LANGS,
    advice,
    catalogue,
    chosen_lang,
    default_lang,
    failure_text,
    reason_text,
    text,
)
from hibor.messages.sentences import sentence_names

IDEOGRAPH = re.compile("[\u3400-\u9fff]")
ENGLISH = re.compile(r"\b[A-Za-z]{2,}(?:[ ,]+[a-z]{2,}){2,}")
CODE_MARKS = re.compile(r"`[^`]*`|\"[^\"]*\"|目录")


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        whole = "\n".join(map(str, value)) if isinstance(value, list) else value
        found |= flat(value, f"{name}.") if isinstance(value, dict) else {name: whole}
    return found


def fields(sentence: str) -> set[str]:
    return {name for _t, name, _s, _c in string.Formatter().parse(sentence) if name}


STATUSES = [status for status, *_ in RUN_STATUSES]


@pytest.mark.parametrize("lang", LANGS)
def test_every_word_has_its_three_sentences(lang: str) -> None:
    assert len(CODES) == 41
    for word in (*CODES, *STATUSES, *STOP_WORDS):
        told = advice(lang, word)
        assert all(len(sentence) > 3 and sentence[-1] in ".。" for sentence in told), word
    for word in FAILURE_CODES:
        assert failure_text(lang, word)[-1] in ".。", word


@pytest.mark.parametrize("lang", LANGS)
def test_no_sentence_for_a_word_there_is_not(lang: str) -> None:
    texts = catalogue(lang)
    assert set(texts["codes"]) == set(CODES)
    assert set(texts["statuses"]) == set(STATUSES)
    assert set(texts["stop_words"]) == set(STOP_WORDS)
    assert set(texts["failures"]) == set(FAILURE_CODES)
    assert set(texts["exits"]) == set(COMMAND_EXITS)
    assert set(texts["cli"]["commands"]) == set(COMMANDS)
    assert set(texts["sentences"]) == sentence_names() | {"other", "see_run"}


def test_both_languages_have_the_same_texts_with_the_same_fields() -> None:
    zh, en = flat(catalogue("zh")), flat(catalogue("en"))
    assert sorted(zh) == sorted(en)
    assert {key: fields(one) for key, one in zh.items()} == {key: fields(one) for key, one in en.items()}


def test_chinese_texts_have_no_english_sentence() -> None:
    bad = []
    for key, sentence in flat(catalogue("zh")).items():
        if key.endswith(".examples"):
            sentence = " ".join(line.partition("#")[2] for line in sentence.splitlines())
        shown = CODE_MARKS.sub("", sentence)
        if ENGLISH.search(shown):
            bad.append(key)
    assert bad == []


def test_english_texts_have_no_chinese_sentence() -> None:
    found = {key for key, one in flat(catalogue("en")).items() if IDEOGRAPH.search(CODE_MARKS.sub("", one))}
    assert {key for key in found if not key.endswith((".examples", ".template"))} == set()


def test_a_missing_text_is_an_error_not_a_line_in_another_language() -> None:
    with pytest.raises(KeyError):
        text("zh", "page.no_such_text")
    with pytest.raises(KeyError):
        advice("en", "NO_SUCH_CODE")
    with pytest.raises(KeyError):
        catalogue("fr")


@pytest.mark.parametrize(
    ("value", "lang"), [("zh_CN.UTF-8", "zh"), ("zh_TW", "zh"), ("en_GB.UTF-8", "en"), ("C.UTF-8", "en")]
)
def test_the_language_is_the_systems(monkeypatch: pytest.MonkeyPatch, value: str, lang: str) -> None:
    for name in ("HIBOR_LANG", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", value)
    assert default_lang() == lang
    assert chosen_lang(["find", "--lang=en"]) == "en" and chosen_lang(["--lang", "zh"]) == "zh"
    assert chosen_lang(["--", "--lang", "zh"]) == lang


def test_an_english_detail_is_told_in_chinese_by_what_its_code_means() -> None:
    assert reason_text("en", "PDF_ENCRYPTED", "the file failed: encrypted") == "the file failed: encrypted"
    assert (
        reason_text("zh", "PDF_ENCRYPTED", "the file failed: encrypted") == advice("zh", "PDF_ENCRYPTED").what
    )
    assert reason_text("zh", "PDF_ENCRYPTED", "文件需要密码") == "文件需要密码"
    told = reason_text(
        "zh", "TASK_SPEC_INVALID", 't.toml:3: unknown key "kount"\nt.toml:4: "count" must be at least 1'
    )
    assert told == "t.toml:3: 没有 kount 这一项\nt.toml:4: count 至少为 1"
    assert not ENGLISH.search(reason_text("zh", "no such code", "some words nobody foresaw"))

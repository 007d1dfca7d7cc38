"""Profiles: strict, with file and line for every fault."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from hibor.device.profile import (
    Profile,
    ProfileError,
    find_shipped,
    load_profile,
    parse_profile,
    profile_sha256,
    shipped_profiles,
)
from hibor.device.profile_types import FIELD_NAMES, FieldRules, MergedRule

SHIPPED = (Path(__file__).parents[2] / "hibor" / "profiles" / "hibor-sim-1.toml").read_bytes()


def line_of(data: bytes, part: bytes) -> int:
    return data[: data.index(part)].count(b"\n") + 1


def faults_of(data: bytes) -> tuple[str, ...]:
    with pytest.raises(ProfileError) as caught:
        parse_profile(data, "p.toml")
    return caught.value.faults


def test_every_shipped_profile_loads_and_is_found_by_package_and_version() -> None:
    assert "hibor-sim-1" in shipped_profiles()
    for name in shipped_profiles():
        profile = load_profile(name)
        assert profile.sha256 == profile_sha256(name) and profile.name == name
        for version in profile.app.versions:
            assert find_shipped(profile.app.package, version) == profile
    other = find_shipped("com.huibo.research", "0.0.1")
    assert other is not None and not other.supports("0.0.1")
    assert find_shipped("com.example", "1") is None


def test_a_file_loads_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(SHIPPED)
    assert load_profile(path).app.package == "com.huibo.research"
    assert load_profile(str(path)).source == "mine.toml"
    with pytest.raises(ProfileError):
        load_profile(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("old", "new", "key", "said"),
    [
        (b'label = "', b'colour = 1\nlabel = "', "app.colour", "unknown key"),
        (b"paying = true", b"paying = 1", "trigger.steps[1].paying", "must be bool"),
        (b"page_change_s = 12.0", b'page_change_s = "12"', "pace.page_change_s", "must be float"),
        (b'kind = "risk"', b'kind = "other"', "access[5].kind", "other"),
        (b"text_matches = '", b"text_matches = '(", "trigger.steps[1].requires[0]", "regular expression"),
        (b'acquire = "cache"', b'acquire = "root"', "cache.acquire", "root"),
        (b'zone = "Asia/Shanghai"', b'zone = "Mars/Base"', "quota", "zone"),
        (b"schema_version = 1", b"schema_version = 2", "schema_version", "must be 1"),
        (b'name = "hibor-sim-1"', b'name = "x"\nsha256 = "y"', "sha256", "unknown key"),
        (b'"Android/data', b'"/Android/data', "cache", "folders"),
    ],
)
def test_a_fault_names_file_line_and_key(old: bytes, new: bytes, key: str, said: str) -> None:
    data = SHIPPED.replace(old, new, 1)
    faults = faults_of(data)
    assert len(faults) == 1 and key in faults[0] and said in faults[0], faults
    number = int(faults[0].split(":")[1].split(" ")[0])
    wanted = line_of(data, new.split(b"\n")[0 if b"colour" in new else -1])
    assert faults[0].startswith("p.toml:") and (number == wanted or key in ("cache", "quota")), faults


def test_all_faults_are_told_at_once() -> None:
    data = SHIPPED.replace(b'label = "', b'lable = "').replace(b"paying = true", b"payed = true")
    said = "\n".join(faults_of(data))
    assert "lable" in said and "payed" in said and "label" in said


@pytest.mark.parametrize("count", [0, 2])
def test_exactly_one_step_pays(count: int) -> None:
    data = SHIPPED.replace(b"paying = true", b"paying = false")
    if count == 2:
        data = SHIPPED.replace(b'name = "download"', b'name = "download"\npaying = true')
    assert any("exactly one" in fault for fault in faults_of(data))


@pytest.mark.parametrize("text", ["隐私政策", "允许访问权限", "发现新版本 立即更新", "Privacy"])
def test_privacy_permission_and_update_dialogs_cannot_be_dismissed(text: str) -> None:
    extra = f'\n[[dialogs]]\nname = "x"\nroot = {{ id = "d" }}\ntext = "{text}"\ndismiss = {{ id = "ok" }}\n'
    assert any("never dismissed" in fault for fault in faults_of(SHIPPED + extra.encode()))


def test_merged_groups_must_be_fields() -> None:
    MergedRule(
        r"(?P<institution>[^-]+)-(?P<stock_name>[^-]+)-(?P<stock_code>\d{6})-(?P<title>.+)-(?P<date>\d{6})"
    )
    for pattern in (r"(?P<broker>.+)", r"(.+)"):
        with pytest.raises(ValueError, match="named groups"):
            MergedRule(pattern)


def test_field_names_and_field_rules_agree() -> None:
    assert tuple(a.name for a in attrs.fields(FieldRules)) == FIELD_NAMES


def test_not_toml_is_a_fault_with_a_line() -> None:
    assert faults_of(b"schema_version = 1\nname = \n")[0].startswith("p.toml:2 ")


def test_profile_is_a_value() -> None:
    assert isinstance(load_profile("hibor-sim-1"), Profile) and hash(load_profile("hibor-sim-1"))

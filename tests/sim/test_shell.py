"""The phone's shell: words and quotes as a real shell reads them, commands as Android answers them."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

from hibor.sim.seam import DumpResult, InputResult
from hibor.sim.shell import Shell
from tests.sim.file_core import APP, FileCore


class Ran:
    """What a command line left behind."""

    def __init__(self, core: FileCore, line: str) -> None:
        out, err = bytearray(), bytearray()
        self.code = Shell(core).run(line, out.extend, err.extend)
        self.out, self.err = bytes(out), bytes(err)

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def errors(self) -> str:
        return self.err.decode()


@pytest.fixture
def core() -> FileCore:
    return FileCore()


# -- reading the line ----------------------------------------------------------------------------------------

BARE = st.text("abcXYZ019_./=:,+@%^-测试，　é😀\u00a0\u2003", min_size=1, max_size=8)
ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


def _double_quoted(text: str) -> str:
    return '"' + "".join(f"\\{letter}" if letter in '\\"$`' else letter for letter in text) + '"'


def _backslashed(text: str) -> str:
    # A backslash before a newline joins two lines, so a newline has to be quoted.
    return "".join("'\n'" if letter == "\n" else f"\\{letter}" for letter in text)


PIECE = st.one_of(
    ANY_TEXT.map(shlex.quote),
    ANY_TEXT.map(lambda text: "'" + text.replace("'", "'\\''") + "'"),
    ANY_TEXT.map(_double_quoted),
    ANY_TEXT.map(_backslashed),
    BARE,
)
# With nothing on the path the real shell has its built-ins only, as ours has its table.
BARE_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": "/nowhere"}
WORD = st.lists(PIECE, min_size=1, max_size=4).map("".join)


@pytest.mark.skipif(sys.platform == "win32", reason="compares with the host's /bin/sh")
@run_settings(max_examples=150, deadline=None)
@given(st.lists(WORD, min_size=1, max_size=5))
def test_quoting_is_that_of_a_real_shell(words: list[str]) -> None:
    # The argument in front keeps a word such as `-n` from being an option, the marks keep words apart.
    line = "printf '<%s>' - " + " ".join(words)
    real = subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=True, env=BARE_ENVIRONMENT)
    core = FileCore()
    ours = Ran(core, line)
    assert ours.out == real.stdout
    assert (ours.code, ours.err) == (0, b"")
    assert core.records == [], "a quoted word is no substitution"


@pytest.mark.skipif(sys.platform == "win32", reason="compares with the host's /bin/sh")
@pytest.mark.parametrize(
    "line",
    [
        "false && echo a || echo b; echo $?", "true || echo a && echo b", "! true; echo $?",
        "! false && echo y",
        "echo a;echo b\necho c", "echo a # b; echo c", "echo a#b '#'", "X=1; echo \"$X\" ${X}2 $X$X '$X'",
        "X='a  b'; echo $X; echo \"$X\"; echo 1${X}2; echo $UNSET end \"$UNSET\" end", "echo a\\\nb",
        "echo 2>&1 a", "echo hidden >/dev/null; echo $?", "false; echo \"X4EXIT:$?\"", "exit 7; echo no",
        "printf '%s-%d\\n' a 1 b 2",
        "[ a = a ] && echo same; [ -n '' ] || echo empty; test 3 -gt 12; echo $?",
        "echo $", "echo \"a$\" 'b\\' \"c\\d\"", "true &&\n\necho joined",
    ],
)
def test_lines_run_as_in_a_real_shell(core: FileCore, line: str) -> None:
    real = subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=False, env=BARE_ENVIRONMENT)
    ours = Ran(core, line)
    assert (ours.out, ours.err, ours.code) == (real.stdout, real.stderr, real.returncode)


@pytest.mark.parametrize(
    "line",
    [
        "cat /sdcard/$(touch x).pdf", "echo `id`", 'echo "$(id)"', "ls /sdcard/*.pdf", "rm -f /sdcard/a?",
        "echo $((1+1))", "stat -c %s [ab].pdf",
    ],
)
def test_substitutions_and_globs_are_recorded_and_not_carried_out(core: FileCore, line: str) -> None:
    core.vfs.write_file("/sdcard/ab", b"")
    ran = Ran(core, line)
    assert core.records == [("shell", None, "substitution")]
    assert b"uid=" not in ran.out
    assert core.vfs.exists("/sdcard/ab")


@pytest.mark.parametrize(
    "name", ["$(touch x).pdf", "a'b\n.pdf", "preview (1).pdf", "foo;bar & `id` *?.pdf", "-rf"]
)
def test_hostile_names_are_plain_names_when_quoted(core: FileCore, name: str) -> None:
    path = f"/sdcard/{name}"
    core.vfs.write_file(path, b"12345")
    ran = Ran(core, f"stat -c '%s %n' {shlex.quote(path)} && cat {shlex.quote(path)}")
    assert (ran.code, ran.text) == (0, f"5 {path}\n12345")
    assert core.records == []


@pytest.mark.parametrize(
    "line", ["cat a | sh", "(id)", "id &", "echo 'open", 'echo "open', "echo $(open", "&& id", ";; id"]
)
def test_what_the_shell_lacks_is_a_syntax_error_and_runs_nothing(core: FileCore, line: str) -> None:
    ran = Ran(core, f"rm -f /sdcard/a; {line}" if line[0] not in "&;" else line)
    assert ran.code == 1
    assert ran.errors.startswith("/system/bin/sh: ")
    assert ran.out == b""


def test_unknown_command_is_127_and_the_host_is_not_asked(core: FileCore) -> None:
    ran = Ran(core, "python3 -c 'print(1)'")
    assert (ran.code, ran.out) == (127, b"")
    assert ran.errors == "/system/bin/sh: python3: inaccessible or not found\n"


def test_redirections_keep_the_streams_apart(core: FileCore) -> None:
    both = Ran(core, "ls /nope 2>&1")
    assert (both.text, both.errors, both.code) == ("ls: /nope: No such file or directory\n", "", 1)
    quiet = Ran(core, "ls /nope 2>/dev/null; echo $?")
    assert (quiet.text, quiet.errors) == ("1\n", "")
    written = Ran(core, "echo one >/sdcard/f; echo two >>/sdcard/f; cat /sdcard/f")
    assert written.text == "one\ntwo\n"
    assert Ran(core, "echo x > /system/f").code == 1


# -- files ---------------------------------------------------------------------------------------------------


def test_ls_tells_denied_from_empty_and_one_bad_entry_from_a_bad_folder(core: FileCore) -> None:
    core.vfs.make_folders("/sdcard/Android/data/x")
    core.vfs.write_file("/sdcard/Android/data/ok", b"1")
    core.vfs.set_access("/sdcard/Android/data/x", "opaque")
    part = Ran(core, "ls -1 /sdcard/Android/data")
    assert (part.text, part.code) == ("ok\n", 1)
    assert part.errors == "ls: /sdcard/Android/data/x: Permission denied\n"
    core.vfs.set_access("/sdcard/Android/data", "denied")
    denied = Ran(core, "ls -la /sdcard/Android/data")
    assert (denied.out, denied.code) == (b"", 1)
    assert denied.errors == "ls: /sdcard/Android/data: Permission denied\n"
    core.vfs.set_access("/sdcard/Android/data", "hidden")
    hidden = Ran(core, "ls -1 /sdcard/Android/data")
    assert (hidden.out, hidden.err, hidden.code) == (b"", b"", 0)


def test_ls_long_format_has_type_size_and_the_phones_own_time(core: FileCore) -> None:
    core.vfs.write_file("/sdcard/报告 (1).pdf", b"12345", mtime=datetime(2026, 11, 29, 20, 5, tzinfo=UTC))
    lines = Ran(core, "ls -la /sdcard/").text.splitlines()
    assert lines[0].startswith("total ")
    assert [line.split()[-1] for line in lines[1:4]] == [".", "..", "Android"]
    assert lines[4].split(None, 7) == [
        "-rw-rw----", "1", "u0_a123", "media_rw", "5", "2026-11-30", "04:05", "报告 (1).pdf",
    ]


def test_stat_formats_and_64_bit_sizes(core: FileCore) -> None:
    class Sparse:
        def size_bytes(self) -> int:
            return 5 * 2**30

        def read(self, offset: int, length: int) -> bytes:
            return bytes(min(length, max(0, self.size_bytes() - offset)))

    facts = core.vfs.write_file("/sdcard/big", Sparse(), mtime=datetime(2026, 1, 1, tzinfo=UTC))
    core.vfs.write_file("/sdcard/empty", b"")
    ran = Ran(core, "stat -c '%s %Y %i %F|%n %a' /sdcard/big /sdcard/missing /sdcard/empty")
    big, empty = ran.text.splitlines()
    assert big == f"5368709120 1767225600 {facts.inode} regular file|/sdcard/big 660"
    assert "regular empty file" in empty
    assert (ran.code, ran.errors) == (1, "stat: '/sdcard/missing': No such file or directory\n")


def test_cat_and_sha256sum_are_byte_exact(core: FileCore) -> None:
    data = bytes(range(256)) * 4000
    core.vfs.write_file("/sdcard/a.bin", data)
    assert Ran(core, "cat /sdcard/a.bin").out == data
    assert Ran(core, "sha256sum /sdcard/a.bin").text == f"{hashlib.sha256(data).hexdigest()}  /sdcard/a.bin\n"
    failed = Ran(core, "cat /sdcard/none && echo reached")
    assert (failed.code, failed.out) == (1, b"")


def test_rm_works_only_below_the_shells_places(core: FileCore) -> None:
    core.vfs.write_file("/data/local/tmp/a", b"")
    core.vfs.write_file("/system/bin/tool", b"")
    assert Ran(core, "rm -f /data/local/tmp/a /data/local/tmp/never-there").code == 0
    assert not core.vfs.exists("/data/local/tmp/a")
    assert Ran(core, "rm -f /system/bin/tool").code == 1
    assert Ran(core, "rm -f /sdcard/../../../system/bin/tool").code == 1
    assert core.vfs.exists("/system/bin/tool")


# -- device --------------------------------------------------------------------------------------------------


def test_device_facts(core: FileCore) -> None:
    assert Ran(core, "getprop ro.serialno").text == "SIMA1000001\n"
    assert "[ro.product.model]: [SIM-A1]" in Ran(core, "getprop").text
    assert Ran(core, "date '+%Y-%m-%dT%H:%M:%S%z'").text == "2026-11-30T09:00:05+0800\n"
    assert Ran(core, "date +%s.%N").text == f"{int(core.now().timestamp())}.250000000\n"
    assert Ran(core, "date 112233").code == 1
    assert Ran(core, f"pm path --user 0 {APP}").text == f"package:/data/app/~~x==/{APP}-1/base.apk\n"
    assert Ran(core, f"pm path --user 10 {APP}").code == 1
    assert "versionName=7.2.1\n" in Ran(core, f"dumpsys package {APP}").text
    assert f"u0 {APP}/{APP}.MainActivity}}" in Ran(core, "dumpsys window").text
    assert "mWakefulness=Awake" in Ran(core, "dumpsys power").text
    assert "  level: 87\n" in Ran(core, "dumpsys battery").text
    assert "  temperature: 315\n" in Ran(core, "dumpsys battery").text
    assert Ran(core, "wm size; wm density").text == "Physical size: 1080x2340\nPhysical density: 440\n"
    settings = Ran(core, "settings put global a b; settings get global a; settings get global c")
    assert settings.text == "b\nnull\n"
    assert Ran(core, "svc power stayon usb; settings get global stay_on_while_plugged_in").text == "2\n"


def test_input_reaches_the_phone_once_and_its_refusal_is_told(core: FileCore) -> None:
    assert Ran(core, "input tap 100 200 && input swipe 1 2 3 4 500; input keyevent KEYCODE_BACK").code == 0
    assert core.inputs == ["tap 100 200", "swipe 1 2 3 4 500", "keyevent KEYCODE_BACK"]
    core.input_result = InputResult("java.lang.SecurityException: INJECT_EVENTS", 255)
    refused = Ran(core, "input tap 1 1")
    assert (refused.code, refused.errors) == (255, "java.lang.SecurityException: INJECT_EVENTS\n")
    core.inputs.clear()
    assert Ran(core, "input tap one two").code != 0
    assert core.inputs == []


def test_dump_goes_to_file_or_terminal_and_a_failed_one_leaves_the_old_file(core: FileCore) -> None:
    ran = Ran(core, "uiautomator dump --compressed /sdcard/d.xml && cat /sdcard/d.xml")
    assert ran.text == 'UI hierchary dumped to: /sdcard/d.xml\n<hierarchy rotation="0"/>'
    assert Ran(core, "uiautomator dump /dev/tty").text == (
        '<hierarchy rotation="0"/>UI hierchary dumped to: /dev/tty\n'
    )
    core.dump = DumpResult("ERROR: null root node returned by UiTestAutomationBridge.", None)
    failed = Ran(core, "uiautomator dump /sdcard/d.xml")
    assert (failed.code, failed.text) == (0, "ERROR: null root node returned by UiTestAutomationBridge.\n")
    assert core.vfs.read("/sdcard/d.xml") == b'<hierarchy rotation="0"/>'


def test_launcher_intent_in_both_forms(core: FileCore) -> None:
    intent = "-a android.intent.action.MAIN -c android.intent.category.LAUNCHER"
    assert Ran(core, f"am start {intent} -n {APP}/.MainActivity").text == f"Starting: {APP} .MainActivity\n"
    monkey = Ran(core, f"monkey -p {APP} -c android.intent.category.LAUNCHER 1")
    assert monkey.text == f"Starting: {APP} None\n"
    assert Ran(core, "am start -a android.intent.action.MAIN").code == 1

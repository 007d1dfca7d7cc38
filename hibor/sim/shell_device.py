"""The shell's device commands: properties, clock, packages, windows, input, screen, settings.

Rules of this file:
- The words are those of Android 14; where its versions differ, the widespread form is used.
- A command reads the core once and prints; it keeps nothing.
- `uiautomator dump` that fails prints its reason on stdout and exits 0, and leaves an older file in place,
  as the real one does (faults F29, F31).
"""

from __future__ import annotations

import itertools
import re
import zlib
from datetime import datetime

from hibor.sim.seam import InputResult
from hibor.sim.shell_io import Tool, ToolIo
from hibor.sim.vfs import VfsError

DUMP_DEFAULT_PATH = "/sdcard/window_dump.xml"
LAUNCHER = "android.intent.category.LAUNCHER"
_STAY_ON = {"true": "7", "false": "0", "ac": "1", "usb": "2", "wireless": "4"}
_WAKEFULNESS = {"Asleep": "OFF", "Dozing": "DOZE"}
_START_OPTIONS_WITH_VALUE = frozenset(
    ("-a", "-d", "-t", "-c", "-f", "--user", "--display", "--windowingMode")
)


# -- properties and clock ------------------------------------------------------------------------------------


def _getprop(io: ToolIo, arguments: list[str]) -> int:
    props = io.core.props
    if arguments:
        io.out(props.get(arguments[0], arguments[1] if len(arguments) > 1 else "") + "\n")
    else:
        io.out("".join(f"[{name}]: [{value}]\n" for name, value in sorted(props.items())))
    return 0


def _date_field(now: datetime, letter: str) -> str:
    if letter == "s":
        return str(int(now.timestamp() // 1))
    if letter == "N":
        return f"{now.microsecond * 1000:09d}"
    if letter in "YmdHMSyjabABpIzZ":
        return now.strftime(f"%{letter}")
    return {"F": now.strftime("%Y-%m-%d"), "T": now.strftime("%H:%M:%S"), "n": "\n", "t": "\t", "%": "%"}.get(
        letter, f"%{letter}"
    )


def _date(io: ToolIo, arguments: list[str]) -> int:
    now = io.core.now()
    pattern = "+%a %b %d %H:%M:%S %Z %Y"
    for argument in arguments:
        if not argument.startswith("+"):
            io.err("date: cannot set date: Operation not permitted\n")
            return 1
        pattern = argument
    io.out(re.sub(r"%(.)", lambda match: _date_field(now, match[1]), pattern[1:]) + "\n")
    return 0


def _id(io: ToolIo, arguments: list[str]) -> int:
    whole = "uid=2000(shell) gid=2000(shell) groups=2000(shell),1015(sdcard_rw)"
    io.out("2000\n" if arguments == ["-u"] else f"{whole}\n")
    return 0


# -- packages ------------------------------------------------------------------------------------------------


def _pm(io: ToolIo, arguments: list[str]) -> int:
    packages = io.core.packages()
    user = 0
    words: list[str] = []
    queue = iter(arguments)
    for argument in queue:
        if argument == "--user":
            number = next(queue, "")
            user = int(number) if number.isdigit() else 0
        elif not argument.startswith("-"):
            words.append(argument)
    if words[:2] == ["list", "users"]:
        users = sorted({0, *(number for facts in packages.values() for number in facts.user_ids)})
        named = {number: "机主" if number == 0 else "分身" for number in users}
        rows = "".join(f"\tUserInfo{{{number}:{name}:c13}} running\n" for number, name in named.items())
        io.out(f"Users:\n{rows}")
        return 0
    if words[:2] == ["list", "packages"]:
        wanted = words[2] if len(words) > 2 else ""
        names = [name for name, facts in sorted(packages.items()) if user in facts.user_ids]
        io.out("".join(f"package:{name}\n" for name in names if wanted in name))
        return 0
    if words[:1] == ["path"] and len(words) == 2:
        found = packages.get(words[1])
        if found is None or user not in found.user_ids:
            return 1
        io.out(f"package:{found.apk_path}\n")
        return 0
    io.err(f"Unknown command: {' '.join(words)}\n")
    return 255


def _dumpsys_package(io: ToolIo, arguments: list[str]) -> int:
    name = arguments[0] if arguments else ""
    facts = io.core.packages().get(name)
    if facts is None:
        io.out(f"Unable to find package: {name}\n")
        return 0
    users = "".join(
        f"    User {number}: ceDataInode={131072 + number} installed=true hidden=false suspended=false"
        " stopped=false enabled=0 instant=false\n"
        for number in facts.user_ids
    )
    io.out(
        f"Packages:\n  Package [{name}] ({_token(name)}):\n    userId=10123\n"
        f"    codePath={facts.apk_path.rpartition('/')[0]}\n"
        f"    versionCode={facts.version_code} minSdk=24 targetSdk=34\n"
        f"    versionName={facts.version_name}\n    flags=[ HAS_CODE ALLOW_CLEAR_USER_DATA ]\n{users}"
    )
    return 0


# -- windows, power, battery, display ------------------------------------------------------------------------


def _dumpsys_window(io: ToolIo, arguments: list[str]) -> int:
    package, activity = io.core.focus()
    keyguard = str(io.core.keyguard()).lower()
    if package:
        full = f"{package}{activity}" if activity.startswith(".") else activity
        window = f"{package}/{full}" if activity else package
        focused = f"Window{{{_token(window)} u0 {window}}}"
        app = f"ActivityRecord{{{_token(full)} u0 {package}/{activity} t12}}"
    else:
        focused = app = "null"
    rotation = io.core.display().rotation * 90
    io.out(
        "WINDOW MANAGER POLICY STATE (dumpsys window policy)\n"
        f"    isKeyguardShowing={keyguard}\n    mDreamingLockscreen={keyguard}\n"
        "WINDOW MANAGER DISPLAY CONTENTS (dumpsys window displays)\n  Display: mDisplayId=0\n"
        f"    mCurrentRotation=ROTATION_{rotation}\n"
        f"  mCurrentFocus={focused}\n  mFocusedApp={app}\n"
    )
    return 0


def _dumpsys_power(io: ToolIo, arguments: list[str]) -> int:
    state = io.core.wakefulness()
    display = _WAKEFULNESS.get(state, "ON")
    io.out(
        "POWER MANAGER (dumpsys power)\n\nPower Manager State:\n"
        f"  mWakefulness={state}\n  mIsPowered=true\nDisplay Power: state={display}\n"
    )
    return 0


def _dumpsys_battery(io: ToolIo, arguments: list[str]) -> int:
    percent, celsius = io.core.battery()
    io.out(
        "Current Battery Service state:\n  AC powered: false\n  USB powered: true\n"
        f"  status: 2\n  health: 2\n  present: true\n  level: {percent}\n  scale: 100\n  voltage: 4200\n"
        f"  temperature: {round(celsius * 10)}\n  technology: Li-ion\n"
    )
    return 0


_DUMPSYS: dict[str, Tool] = {
    "package": _dumpsys_package, "window": _dumpsys_window,
    "power": _dumpsys_power, "battery": _dumpsys_battery,
}


def _dumpsys(io: ToolIo, arguments: list[str]) -> int:
    name = arguments[0] if arguments else ""
    service = _DUMPSYS.get(name)
    if service is None:
        io.err(f"Can't find service: {name}\n")
        return 0
    return service(io, arguments[1:])


def _wm(io: ToolIo, arguments: list[str]) -> int:
    display = io.core.display()
    if arguments == ["size"]:
        io.out(f"Physical size: {display.width}x{display.height}\n")
        if display.override is not None:
            io.out(f"Override size: {display.override[0]}x{display.override[1]}\n")
        return 0
    if arguments == ["density"]:
        io.out(f"Physical density: {display.density}\n")
        return 0
    io.err(f"Unknown command: {' '.join(arguments)}\n")
    return 255


# -- the screen ----------------------------------------------------------------------------------------------


def _uiautomator(io: ToolIo, arguments: list[str]) -> int:
    if arguments[:1] != ["dump"]:
        io.out("Usage: uiautomator <subcommand> [options]\n")
        return 1
    paths = [argument for argument in arguments[1:] if not argument.startswith("--")]
    path = paths[0] if paths else DUMP_DEFAULT_PATH
    result = io.core.dump_xml("--compressed" in arguments)
    output = result.output or ("UI hierchary dumped to: " if result.xml is not None else "")
    if result.xml is not None:
        output = re.sub(r"(dumped to:).*", lambda match: f"{match[1]} {path}", output)
        if path == "/dev/tty":
            io.stdout(result.xml)
        else:
            try:
                io.core.vfs.write_file(path, result.xml, checked=True)
            except VfsError as error:
                io.err(f"java.io.FileNotFoundException: {path}: open failed: ({error.text})\n")
                return 1
    io.out(output if not output or output.endswith("\n") else f"{output}\n")
    return 0


def _screencap(io: ToolIo, arguments: list[str]) -> int:
    paths = [argument for argument in arguments if not argument.startswith("-")]
    image = io.core.screencap_png()
    if not paths:
        io.stdout(image)
        return 0
    try:
        io.core.vfs.write_file(paths[0], image, checked=True)
    except VfsError as error:
        io.err(f"Error opening file: {paths[0]} ({error.text})\n")
        return 1
    return 0


def _input(io: ToolIo, arguments: list[str]) -> int:
    if arguments[:1] in (["touchscreen"], ["keyboard"]):
        arguments = arguments[1:]
    action, *values = arguments or [""]
    numbers = [round(float(value)) for value in values if re.fullmatch(r"-?\d+(\.\d+)?", value)]
    all_numbers = len(numbers) == len(values)
    if action == "tap" and len(values) == 2 and all_numbers:
        return _input_done(io, io.core.tap(numbers[0], numbers[1]))
    if action == "swipe" and len(values) in (4, 5) and all_numbers:
        x1, y1, x2, y2, *duration = numbers
        return _input_done(io, io.core.swipe(x1, y1, x2, y2, duration[0] if duration else 300))
    if action == "keyevent" and values:
        for value in values:
            code = _input_done(io, io.core.keyevent(value))
            if code:
                return code
        return 0
    if action == "text" and len(values) == 1:
        return _input_done(io, io.core.text(values[0].replace("%s", " ")))
    io.err(f"Error: Invalid arguments for command: {action}\n")
    return 255


def _input_done(io: ToolIo, result: InputResult) -> int:
    if result.stderr:
        io.err(result.stderr if result.stderr.endswith("\n") else f"{result.stderr}\n")
    return result.exit_code


# -- starting apps, settings ---------------------------------------------------------------------------------


def _am(io: ToolIo, arguments: list[str]) -> int:
    if arguments[:1] == ["start-activity"]:
        arguments = ["start", *arguments[1:]]
    if arguments[:1] != ["start"]:
        io.err(f"Unknown command: {' '.join(arguments)}\n")
        return 255
    package, activity = "", None
    queue = iter(arguments[1:])
    for argument in queue:
        if argument == "-n":
            package, _, named = next(queue, "").partition("/")
            activity = named or None
        elif argument == "-p":
            package = next(queue, "")
        elif argument in _START_OPTIONS_WITH_VALUE:
            next(queue, "")
        elif not argument.startswith("-"):
            package, _, named = argument.partition("/")
            activity = named or None
    if not package:
        io.err("Error: Activity not started, unable to resolve Intent\n")
        return 1
    result = io.core.start(package, activity)
    io.out(result.stdout)
    return result.exit_code


def _monkey(io: ToolIo, arguments: list[str]) -> int:
    options = dict(itertools.pairwise(arguments))
    package = options.get("-p", "")
    if not package or options.get("-c", LAUNCHER) != LAUNCHER:
        io.out("** No activities found to run, monkey aborted.\n")
        return 252
    result = io.core.start(package, None)
    io.out(result.stdout)
    return result.exit_code


def _settings(io: ToolIo, arguments: list[str]) -> int:
    if arguments[:1] == ["get"] and len(arguments) == 3:
        io.out(io.core.settings_get(arguments[1], arguments[2]) + "\n")
        return 0
    if arguments[:1] == ["put"] and len(arguments) == 4:
        io.core.settings_put(arguments[1], arguments[2], arguments[3])
        return 0
    io.err("Invalid command\n")
    return 255


def _svc(io: ToolIo, arguments: list[str]) -> int:
    if arguments[:2] == ["power", "stayon"] and len(arguments) == 3 and arguments[2] in _STAY_ON:
        io.core.settings_put("global", "stay_on_while_plugged_in", _STAY_ON[arguments[2]])
        return 0
    io.err("Control the power manager\n\nusage: svc power stayon [true|false|usb|ac|wireless]\n")
    return 1


def _token(text: str) -> str:
    """Seven hex digits, the same for the same text, as Android's object names have."""
    return f"{zlib.crc32(text.encode()) & 0xFFFFFFF:07x}"


DEVICE_TOOLS: dict[str, Tool] = {
    "getprop": _getprop, "date": _date, "id": _id, "pm": _pm, "dumpsys": _dumpsys, "wm": _wm,
    "uiautomator": _uiautomator, "screencap": _screencap, "input": _input, "am": _am, "monkey": _monkey,
    "settings": _settings, "svc": _svc,
}

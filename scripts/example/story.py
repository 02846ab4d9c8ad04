"""What the user and the agent say, and what the agent does. What comes of it is not written here: it happens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.example.paste import old_plot, telemetry

HERE = Path(__file__).resolve().parent
HOME = "/home/ada/tidegauge"
Call = tuple[str, dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer of the agent."""

    think: str = ""
    say: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    user: str
    steps: tuple[Step, ...]
    pause: float = 60.0
    """Seconds before the user writes."""
    pictures: tuple[bytes, ...] = ()


def read(name: str) -> Call:
    return "Read", {"file_path": f"{HOME}/{name}"}


def bash(command: str, why: str) -> Call:
    return "Bash", {"command": command, "description": why}


def grep(pattern: str, where: str = "") -> Call:
    return "Grep", {"pattern": pattern, **({"path": f"{HOME}/{where}"} if where else {})}


def write(name: str, source: str) -> Call:
    return "Write", {"file_path": f"{HOME}/{name}", "content": (HERE / "written" / source).read_text(encoding="utf-8")}


def edit(name: str, old: str, new: str) -> Call:
    return "Edit", {"file_path": f"{HOME}/{name}", "old_string": old, "new_string": new}


def do(*calls: Call, say: str = "", think: str = "") -> Step:
    return Step(calls=calls, say=say, think=think)


def said(name: str) -> Step:
    return Step(say=(HERE / "said" / f"{name}.md").read_text(encoding="utf-8").strip())


STRICT = """\
    for place in range(1, len(heights) - 1):
        before, here, after = heights[place - 1 : place + 2]
        if here > before and here > after:
            found.append(Extreme("high", readings[place].time, here))
        if here < before and here < after:
            found.append(Extreme("low", readings[place].time, here))
    return _thinned(found)
"""
LOOSE = STRICT.replace("here > before", "here >= before").replace("here < before", "here <= before")
RUNS = """\
    # Heights are rounded, so the top is often flat: equal neighbours are one stretch, and its middle is the time.
    runs = [list(places) for _, places in groupby(range(len(heights)), key=heights.__getitem__)]
    for before, here, after in zip(runs, runs[1:], runs[2:]):
        level = heights[here[0]]
        kind = _turning(heights[before[0]], level, heights[after[0]])
        if kind:
            found.append(Extreme(kind, readings[here[len(here) // 2]].time, level))
    return _thinned(found)


def _turning(before: float, here: float, after: float) -> Literal["high", "low"] | None:
    if before < here > after:
        return "high"
    if before > here < after:
        return "low"
    return None
"""
AROUND = """python - <<'END'
from tidegauge.readings import load, smoothed
week = load("data/harbour.csv")
heights = smoothed(week)
top = max(range(200), key=heights.__getitem__)
for place in range(top - 6, top + 7):
    print(f"{week[place].time:%a %H:%M}  {week[place].height:.2f}  {heights[place]:.2f}")
END"""
FLAT = """python - <<'END'
from itertools import groupby
from tidegauge.readings import load, smoothed
for name in ("harbour", "quarry"):
    heights = smoothed(load(f"data/{name}.csv"))
    runs = [(level, len(list(same))) for level, same in groupby(heights)]
    tops = [(b, n) for (a, _), (b, n), (c, _) in zip(runs, runs[1:], runs[2:]) if a < b > c]
    print(name, len(tops), "tops, of which flat:", sum(n > 1 for _, n in tops))
    for level, n in tops:
        print(f"  {level:.2f} m for {n} readings")
END"""

FIRST = next(line for line in telemetry().splitlines() if line.startswith("$"))[1:].partition("*")[0]

FIND = Turn(
    user=(
        "The harbour master rang: our weekly report gives Harbour 2 high waters for last week. There must be 13 or 14. "
        "Please find out why. Do not change anything yet; I want to understand it first."
    ),
    steps=(
        do(
            ("Glob", {"pattern": "**/*.py"}),
            read("README.md"),
            think="I should see how the project is laid out before I guess. The README and the list of files first.",
            say="I'll look at the project first.",
        ),
        do(read("tidegauge/report.py"), read("tidegauge/extremes.py"), read("tidegauge/readings.py")),
        do(bash("python tools/make_data.py", "Make the week of data")),
        do(
            bash("python -m unittest", "Run the tests"),
            think="There may be a test that shows it already.",
        ),
        do(
            bash("cat data/harbour.csv", "Look at the whole week of Harbour"),
            say="The tests show it too. Now the data themselves: is the week complete, and does it look like a tide?",
        ),
        do(grep("smoothed"), grep("extremes\\("), grep("APART")),
        do(bash("python -m tidegauge data/harbour.csv --station HARBOUR", "Write the report")),
        do(
            bash("python -m tidegauge data/harbour.csv --station HBR", "Write the report with the right code"),
            say="The station's code is HBR.",
        ),
        do(
            bash(AROUND, "Heights around the first high water"),
            think=(
                "Two of fourteen. The comparison is strict on both sides: here > before and here > after. Heights are "
                "rounded to centimetres twice, once by the gauge and once by smoothed(). At the top of the tide the water "
                "hardly moves for half an hour, so several readings in a row are equal, and no single one is greater than "
                "both of its neighbours. I want to see that in the numbers rather than believe it."
            ),
        ),
        do(bash(FLAT, "How often the top is flat")),
        do(read("tidegauge/extremes.py"), say="Once more the code, with these numbers in mind."),
        said("find"),
    ),
)

FIX = Turn(
    pause=150.0,
    user="That makes sense, thank you. Please fix it, tests first. And I want a test for every kind of tide, not three examples.",
    steps=(
        do(read("tests/test_report.py"), read("tests/test_readings.py")),
        do(
            write("tests/test_extremes.py", "test_extremes.py"),
            think="Tests first: flat tops, flat bottoms, steps on the way, ends of the log, plain tides of known length.",
            say="Tests for plateaus, for the ends of the log, and for plain tides whose answer is known:",
        ),
        do(bash("python -m unittest tests.test_extremes", "See the new tests fail")),
        do(read("tidegauge/extremes.py")),
        do(
            edit("tidegauge/extremes.py", STRICT, LOOSE),
            think="The smallest change is to allow equality on one side. I doubt that it is right, but the tests will tell.",
            say="First the smallest change that could work: equality on one side.",
        ),
        do(bash("python -m unittest tests.test_extremes", "Does the small change do?")),
        do(
            read("tidegauge/extremes.py"),
            say="Not enough: a shelf at the start of a fall is now a high water, as I feared.",
        ),
        do(
            edit("tidegauge/extremes.py", LOOSE, RUNS),
            edit(
                "tidegauge/extremes.py",
                "from datetime import datetime, timedelta\n",
                "from datetime import datetime, timedelta\nfrom itertools import groupby\n",
            ),
            think="Take equal neighbours together, then compare stretches. The middle of a stretch is its time.",
        ),
        do(bash("python -m unittest tests.test_extremes", "Run the tests of extremes")),
        do(read("tidegauge/extremes.py"), grep("groupby")),
        do(
            write("tests/test_sweep.py", "test_sweep.py"),
            say="Now every amplitude against every phase, one test each:",
        ),
        do(bash("python -m unittest -v tests.test_sweep", "Run the sweep, verbosely")),
        do(grep("here > before"), grep("_thinned")),
        do(bash("python -m unittest", "Run all tests")),
        do(
            bash("python -m tidegauge data/harbour.csv --station HBR", "The report of Harbour"),
            bash("python -m tidegauge data/quarry.csv --station QRY", "The report of Quarry Point"),
        ),
        said("fix"),
    ),
)

LOGGER = Turn(
    pause=240.0,
    user=(
        "Next: the gauge at Quarry Point has a new logger. It prints what you see below. Please write `tidegauge/logger.py` "
        "that makes readings of it. The radio link loses lines, so a bad line must not stop the report, but I want to know "
        "how many were lost and why. A height of -9999 means that the float was stuck.\n\n" + telemetry()
    ),
    steps=(
        do(
            grep("BadRow"),
            read("tidegauge/readings.py"),
            think=(
                "Lines begin with $TG, fields are comma separated, and what follows the star looks like an XOR checksum in "
                "hexadecimal, as in NMEA. Heights are in millimetres: 2390 would be 2.39 m, which agrees with the mean of "
                "Quarry Point. The fourth number is the spread, the fifth the battery in hundredths of a volt."
            ),
            say="I'll see how the CSV reader treats bad rows, so that the two are alike where they should be.",
        ),
        do(read("tidegauge/datum.py"), read("data/stations.json")),
        do(
            bash(
                'python -c "from functools import reduce; from operator import xor; '
                f"print(format(reduce(xor, b'{FIRST}', 0), '02X'))\"",
                "Is the number after the star an XOR?",
            ),
        ),
        do(write("tidegauge/logger.py", "logger.py"), say="It is. The reader:"),
        do(write("tests/test_logger.py", "test_logger.py")),
        do(bash("python -m unittest tests.test_logger", "Run the tests of the logger")),
        do(read("tidegauge/logger.py"), grep("fromisoformat")),
        do(
            edit(
                "tidegauge/logger.py",
                '    when = datetime.fromisoformat(time.removesuffix("Z"))\n',
                "    try:\n"
                '        when = datetime.fromisoformat(time.removesuffix("Z"))\n'
                "    except ValueError:\n"
                '        raise ValueError("wrong time") from None\n',
            ),
            say="A time that is none must be counted under its own name, or the report would show Python's words.",
        ),
        do(bash("python -m unittest tests.test_logger", "Run them again")),
        do(read("tidegauge/logger.py")),
        do(grep("ValueError"), grep("STUCK"), grep("Reading\\(")),
        do(read("tidegauge/readings.py"), say="One more look at the CSV reader: do both give times without a zone?"),
        do(bash("python -m unittest", "Run all tests")),
        said("logger"),
    ),
)

CHINESE = Turn(
    pause=420.0,
    user=(
        "请再写一份中文的说明，放在 README.zh.md。术语要准确：high water 是高潮，low water 是低潮，chart datum 是海图基准面。"
        "不要逐字翻译，读者是港口的值班员，不是程序员。顺便把这次修好的平顶高潮的问题也讲清楚。"
    ),
    steps=(
        do(read("README.md"), grep("chart"), think="用户要中文说明。先看英文的 README，再看基准面在哪里用到。"),
        do(read("tidegauge/datum.py"), read("data/stations.json")),
        do(write("README.zh.md", "README.zh.md"), say="我按值班员的需要来写，重点放在容易弄错的地方。"),
        do(read("README.zh.md"), bash("wc -l README.md README.zh.md", "Compare their length")),
        do(
            edit(
                "README.md",
                "- `extremes.py` finds high and low waters.\n",
                "- `logger.py` reads what the new loggers print.\n- `extremes.py` finds high and low waters.\n",
            ),
            say="英文的 README 还缺 `logger.py` 一行，一并补上。",
        ),
        Step(
            say=(
                "写好了：`README.zh.md`。除了各个文件的用途，还专门讲了四件容易弄错的事：平顶的高潮、两次高潮至少相隔六小时、"
                "基准面换算的方向，以及出错的行怎么处理。英文 README 里原来没有 `logger.py`，也补上了。程序没有改动。"
            )
        ),
    ),
)

PLOT = Turn(
    pause=1500.0,
    user=(
        "These are the plots of the old program for Quarry Point, the last five weeks. We need one a week for both stations. "
        "Please write `tools/plot.py`: a PNG, one bit a pixel, no library, and mark the high and low waters."
    ),
    pictures=tuple(old_plot(week) for week in range(5)),
    steps=(
        do(
            read("tidegauge/report.py"),
            read("tidegauge/extremes.py"),
            think="A PNG of one bit a pixel is simple enough.",
        ),
        do(write("tools/plot.py", "plot.py"), say="The plot:"),
        do(bash("python tools/plot.py data/harbour.csv harbour.png", "Draw Harbour")),
        do(read("harbour.png")),
        do(
            edit(
                "tools/plot.py",
                "    pixels, where = draw(week)\n",
                "    pixels, where = draw(week)\n    mark(pixels, where, week)\n",
            ),
            say="The curve is right, but the marks are missing: `mark` is never called.",
        ),
        do(bash("python tools/plot.py data/harbour.csv harbour.png", "Draw Harbour again"), read("harbour.png")),
        do(bash("python tools/plot.py data/quarry.csv quarry.png", "Draw Quarry Point"), read("quarry.png")),
        do(read("tools/plot.py"), grep("EDGE")),
        do(
            edit("tools/plot.py", "for step in range(-3, 4):", "for step in range(-5, 6):"),
            say="The crosses are too small to see on paper.",
        ),
        do(
            bash("for s in harbour quarry; do python tools/plot.py data/$s.csv $s.png; done", "Draw both"),
            read("harbour.png"),
            read("quarry.png"),
        ),
        Step(say="Both plots are drawn, with a cross at each high and low water: `python tools/plot.py LOG PICTURE`."),
    ),
)

METHOD = Turn(
    pause=200.0,
    user=(
        "Two things before we merge. The report lists O1 with 0.000 m and a phase, which looks silly: leave out what is below a "
        "centimetre. And write docs/method.md: how we get from the float to the numbers, for somebody who has to defend them."
    ),
    steps=(
        do(read("tidegauge/harmonics.py"), grep("constituents"), read("tidegauge/report.py")),
        do(
            edit(
                "tidegauge/report.py",
                "for one in fitted.constituents]",
                "for one in fitted.constituents if one.amplitude >= LEAST]",
            ),
            edit(
                "tidegauge/report.py",
                'CHART = "chart"\n',
                'CHART = "chart"\nLEAST = 0.01\n"""Metres. The phase of a smaller constituent is noise."""\n',
            ),
        ),
        do(
            edit(
                "tests/test_report.py",
                "    def test_a_whole_week_is_covered(self):\n",
                "    def test_a_constituent_below_a_centimetre_is_left_out(self):\n"
                '        told = report(load("data/harbour.csv"), STATIONS["HBR"])\n'
                '        self.assertIn("K1  0.12", told)\n'
                '        self.assertNotIn("O1", told)\n\n'
                "    def test_a_whole_week_is_covered(self):\n",
            ),
        ),
        do(bash("python -m unittest tests.test_report", "Run the tests of the report")),
        do(read("tests/test_report.py"), grep("LEAST")),
        do(write("docs/method.md", "method.md"), say="And the page about the method:"),
        do(read("docs/method.md"), grep("offsets")),
        do(
            read("tidegauge/readings.py"),
            grep("sigma"),
            think="The page says that noisy readings are kept. Is that so?",
        ),
        do(read("tidegauge/report.py")),
        said("method"),
    ),
)

MERGE = Turn(
    pause=90.0,
    user="Good. Run everything once more, show the sweep's log, and tell me what changed, file by file.",
    steps=(
        do(
            bash("python -m unittest", "Run all tests"),
            bash("python -m unittest -v tests.test_sweep", "The sweep's log"),
        ),
        do(
            bash("python -m tidegauge data/harbour.csv --station HBR", "The report of Harbour"),
            bash("python -m tidegauge data/quarry.csv --station QRY", "The report of Quarry Point"),
        ),
        do(("Glob", {"pattern": "**/*.py"}), grep("^def |^class ", "tidegauge")),
        do(read("tidegauge/extremes.py"), read("tidegauge/logger.py"), read("tidegauge/report.py")),
        do(bash("cat data/quarry.csv | cut -d, -f1,2 | head -400", "The first days of Quarry Point")),
        do(grep("TODO|FIXME"), bash("wc -l tidegauge/*.py tests/*.py tools/*.py", "Lines of code")),
        said("merge"),
    ),
)

TURNS = (FIND, FIX, LOGGER, CHINESE, PLOT, METHOD, MERGE)

"""Makes a week of readings for each station. The same every time: the noise comes from a fixed rule."""

import math
from datetime import datetime, timedelta
from pathlib import Path

START = datetime(2026, 2, 23)
STATIONS = {"harbour": (2.87, 1.92, 0.61, 7), "quarry": (2.39, 1.55, 0.48, 11)}
ROWS = 1680


def noise(seed):
    state = seed
    while True:
        state = (state * 1103515245 + 12345) % 2**31
        yield state / 2**31 - 0.5


def rows(mean, m2, s2, seed):
    dice = noise(seed)
    for place in range(ROWS):
        hours = place / 10
        tide = m2 * math.cos(math.radians(28.9841042 * hours - 60)) + s2 * math.cos(math.radians(30 * hours - 95))
        tide += 0.12 * math.cos(math.radians(15.0410686 * hours - 10))
        height = mean + tide + 0.01 * next(dice)
        sigma = 0.02 + 0.01 * abs(next(dice))
        battery = 12.6 - 0.6 * place / ROWS + 0.02 * next(dice)
        when = START + timedelta(minutes=6 * place)
        yield f"{when:%Y-%m-%dT%H:%M},{height:.2f},{sigma:.3f},{battery:.2f}"


for name, (mean, m2, s2, seed) in STATIONS.items():
    lines = ["time,height,sigma,battery", *rows(mean, m2, s2, seed)]
    Path("data", f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"data/{name}.csv: {len(lines) - 1} readings")

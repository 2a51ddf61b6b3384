#!/usr/bin/env python3
"""Writes a scenario of 20 cells of 802.16 with 50 calls each, for docs/benchmarks.md.

cells.py STATIONS > cells.toml: 5 stations of ten calls each, or 50 of one.
"""

import sys

CELL = """
[node.base{n}]
kind = "router"
[node.house{n}]
count = {stations}
[node.host{n}]
[cell.c{n}]
[link.radio{n}]
between = ["base{n}", "house{n}"]
medium = {{ kind = "wimax", cell_name = "c{n}", snr = [30.0, 30.0] }}
[link.lan{n}]
between = ["base{n}", "host{n}"]
rate = "1 Gbit/s"
delay = "1 ms"
[flow.calls{n}]
from = "house{n}"
to = "host{n}"
count = {calls}
traffic = {{ kind = "voice", codec = "g729", silence_suppression = false }}
"""

if len(sys.argv) != 2 or sys.argv[1] not in ("5", "10", "25", "50"):
    sys.exit(__doc__)
stations = int(sys.argv[1])
print('title = "Cells"\nduration = "100 s"')
print("".join(CELL.format(n=n, stations=stations, calls=50 // stations) for n in range(20)))

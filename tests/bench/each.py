"""Every benchmark, briefly, on every broker.

Enters: what `harrier bench --help` names.  Leaves: checks by name, for one broker each.
Owns:   the table of how each command is run briefly.
Never:  leaves a command out: one that is not in the table fails.
"""

import json
import re

from scene import INVALID, WELL, bench, need, points, whole

# command: (variations, each the words of one brief run)
BRIEF = {
    "de-spsc": ("-m 1:64K -i 500", "-m 64:64 -i 500 -c --runs 2", "-m 1M:1M -i 20 -c", "-m 64:16K -i 500 -c --window 3,64"),
    "de-mpmc": ("-m 64:64 -i 300 --pairs 1,2,4", "-m 1K:1K -i 300 -c --pairs 2 --window 16 --baseline"),
    "de-pp": ("-m 1:4K -i 100", "-m 64:64 -i 100 -c"),
    "fe-spmc": ("-m 64:64 -i 200 --consumers 1,4,8",),
    "te-spsc": ("-m 64:64 -i 500 --patterns 1,64",),
    "confirm": ("-m 64:1K -i 500", "-m 64:64 -i 500 --durable"),
    "churn": ("--clients 1,2 --seconds 1", "-k queue --clients 1 -i 20 --durable"),
    "drain": ("-m 64:1K -i 2000", "-m 64:64 -i 1000 --ack-every 10 --prefetch 100", "-m 64:64 -i 500 --durable"),
    "open": (
        "--rate 200,500 --seconds 1 --warm-up 0.3 -c",
        "--rate 200 --seconds 1 --warm-up 0.3 --confirms 100 --ack-every 10 --durable",
    ),
    "workload": tuple(
        f"{name} --seconds 1 --scale {scale}"
        for name, scale in (
            ("market-data", 0.02),
            ("order-entry", 0.2),
            ("telemetry", 0.1),
            ("task-queue", 0.2),
            ("bulk-transfer", 0.2),
        )
    )
    + ("task-queue --seconds 1 --scale 0.2 --durable", "order-entry --seconds 1 --scale 0.2 --durable"),
}
# What needs no broker, or brings its own.
ALONE = {
    "baseline": ("sockets -m 64:1K -i 500",),
    "floor": ("-m 64:1K -i 500",),
    "disk": ("-m 4096,65536 -n 20",),
    "recover": ("-m 64:128 -i 2000 -c",),
}
# Tested elsewhere: compare, report and suite in others.py; perf and scale are steps of their own; networks and rdma in tests/lab.
ELSEWHERE = {"networks", "rdma", "compare", "suite", "perf", "scale", "report", "help"}


def commands():
    """The commands that the help names."""
    told = bench("--help")
    found = re.findall(r"^  ([a-z][a-z-]*)(?: |$)", told.out, re.MULTILINE)
    need(found, "the help names no command", told)
    # Each baseline has a line of its own.
    return list(dict.fromkeys(found))


def helped(command):
    told = bench(command, "--help")
    need(told.out.startswith("usage: harrier bench"), "the help does not begin with its usage", told)
    need(not told.err, "help is no error", told)
    short = bench(command, "-h")
    need(short.out == told.out, "-h says something else", short)


def known(command):
    need(command in {*BRIEF, *ALONE} | ELSEWHERE, f"no test runs '{command}' yet: add it to each.py")


def brief(command, words, broker, name):
    """One brief run on a broker that somebody started: all arrives, and the document says whose figures these are."""
    ended = bench(command, *words.split(), "--url", broker.url(), status=(WELL, INVALID), document=name)
    document = whole(ended)
    need(ended.rows(), "the table has no rows", ended)
    facts = document["targets"][0]
    need(broker.product in (facts["product"] or ""), f"the broker calls itself {facts['product']}", ended)
    need(facts["version"] and facts["transport"] == "tcp", f"facts: {facts}", ended)
    need("guest" not in (facts["url"] or "") and ":guest@" not in json.dumps(document), "a password is told", ended)
    # Its process was found by the port, and worked.
    first = [run for series in document["series"] for run in series["points"][0]["runs"]]
    need(all(run["broker"] for run in first), "what the broker used is missing", ended)
    return document


def embedded(command, words):
    """The same on the program's own broker, in every format."""
    ended = bench(command, *words.split(), status=(WELL, INVALID), document=f"embedded-{command}")
    whole(ended)
    need(ended.out.startswith("# "), "the header does not begin with '# '", ended)


def alone(command, words):
    ended = bench(command, *words.split(), status=(WELL, INVALID), document=f"alone-{command}")
    whole(ended)
    need(ended.rows(), "the table has no rows", ended)


def sizes(command):
    """A row for each power of two, the size in its first column, as scripts for OSU output expect."""
    ended = bench(command, "-m", "1:1K", "-i", 100, status=(WELL, INVALID), document=f"sizes-{command}")
    document = whole(ended)
    expected = [1 << power for power in range(11)]
    need([int(row[0]) for row in ended.rows()] == expected, "the rows are others", ended)
    need([point["at"] for _, point in points(document)] == expected, "the points are others", ended)

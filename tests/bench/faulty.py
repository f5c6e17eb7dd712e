"""Brokers that lose, double, reorder or damage messages, are slow, fall silent or disappear: the benchmark must say so.

Enters: a relay in front of a broker that is in order (relay.py).  Leaves: EXPECTATIONS by name; all may run at once.
Owns:   a broker of its own, which some of the tests kill.
Never:  takes a run for invalid that is only slow.
"""

import contextlib
import os
import signal
import socket

from relay import relay, silent
from scene import FAILED, INVALID, WELL, bench, faults, harrier, need, points, runs, until, whole

# One size; a tenth of it warms up, so that message 300 is well inside the measured part.
COUNT, AT = 400, 300


def through(fault, *words, status=INVALID, name=None, at=AT, wait_s=0.0, deadline_s=90, client=b"bench consumer"):
    name = name or f"faulty-{fault}"
    with harrier() as broker, relay(broker.port, fault, at, wait_s, client) as between:
        ended = bench(*words, "--url", between.url(), status=status, document=name, deadline_s=deadline_s)
        need(between.struck, f"the relay let all {between.passed} messages pass", ended)
    return ended


def invalid_with(fault, kind, word, *words):
    """The run must say INVALID and name the fault, and the document must hold the count and the figures."""
    ended = through(fault, "de-spsc", "-m", "64:64", "-i", COUNT, *words, name=f"faulty-{fault}{len(words)}")
    need("INVALID" in ended.out + ended.err, "the word INVALID is missing", ended)
    need(word in ended.out + ended.err, f"the word '{word}' is missing", ended)
    document = ended.document
    need(document is not None, "no document", ended)
    need(points(document), "the figures were thrown away", ended)
    need(any(run["invalid"] for run in runs(document)), "no run of the document says that it is invalid", ended)
    found = faults(document)
    need(found[kind] == 1, f"expected one message {kind}, found {found}", ended)
    others = {name: count for name, count in found.items() if count and name != kind}
    need(not others, f"and also {others}", ended)


def lost():
    invalid_with("drop", "lost", "lost")


def doubled():
    invalid_with("double", "duplicates", "doubled")


def reordered():
    invalid_with("swap", "reordered", "out of order")


def stray():
    ended = through("shorten", "de-spsc", "-m", "64:64", "-i", COUNT)
    found = faults(ended.document)
    # It is no message of this segment, and the one that it was is missing.
    need((found["strays"], found["lost"]) == (1, 1), f"found {found}", ended)


def damaged():
    invalid_with("damage", "damaged", "damaged", "-c")


def damaged_unchecked():
    """Without -c nobody looks at the last byte: the run is in order."""
    whole(through("damage", "de-spsc", "-m", "64:64", "-i", COUNT, status=(WELL, INVALID), name="faulty-unchecked"))


def lost_round_trip():
    ended = through("drop", "de-pp", "-m", "64:64", "-i", COUNT, name="faulty-drop-pp")
    need(faults(ended.document)["lost"] >= 1, f"found {faults(ended.document)}", ended)


def lost_among_many():
    """Four consumers get each message; one of them misses one."""
    ended = through("drop", "fe-spmc", "-m", "64:64", "-i", COUNT, "--consumers", "4", name="faulty-drop-fanout")
    need(faults(ended.document)["lost"] >= 1, f"found {faults(ended.document)}", ended)


def lost_among_many_pairs():
    ended = through("drop", "de-mpmc", "-m", "64:64", "-i", COUNT, "--pairs", "2", name="faulty-drop-pairs")
    need(faults(ended.document)["lost"] >= 1, f"found {faults(ended.document)}", ended)


def lost_with_confirms():
    """The broker has confirmed it, and it did not come."""
    ended = through("drop", "confirm", "-m", "64:64", "-i", COUNT, name="faulty-drop-confirm")
    need(faults(ended.document)["lost"] >= 1, f"found {faults(ended.document)}", ended)


def lost_in_a_backlog():
    ended = through("drop", "drain", "-m", "64:64", "-i", COUNT, name="faulty-drop-drain", client=b"bench drain")
    need(faults(ended.document)["lost"] >= 1, f"found {faults(ended.document)}", ended)


def lost_in_open_loop():
    for fault, kind in (("drop", "lost"), ("double", "duplicates"), ("swap", "reordered")):
        words = ("open", "--rate", "500", "--seconds", "1", "--warm-up", "0.2")
        ended = through(fault, *words, name=f"faulty-{fault}-open", client=b"bench consumers.")
        need(faults(ended.document)[kind] >= 1, f"{fault}: found {faults(ended.document)}", ended)


def partial_results_of_the_invalid():
    """Sizes before and after the faulty one are measured and kept."""
    ended = through("drop", "de-spsc", "-m", "64:256", "-i", COUNT, name="faulty-partial")
    need(len(ended.rows()) == 3, "there are not three rows", ended)
    marked = [bool(run["invalid"]) for run in runs(ended.document)]
    need(marked[0] and not all(marked), f"marked invalid: {marked}", ended)


def slow():
    whole(through("slow", "de-spsc", "-m", "64:64", "-i", 60, at=1, wait_s=0.02, status=(WELL, INVALID)))


def falls_silent():
    """A connection that stays open and brings nothing: bounded by the longest silence, all after it lost."""
    ended = through("mute", "de-spsc", "-m", "64:64", "-i", COUNT, status=(FAILED, INVALID))
    need("lost" in ended.out + ended.err or "no message" in ended.out + ended.err, "what is missing is not said", ended)


def cut():
    ended = through("cut", "de-spsc", "-m", "64:64", "-i", COUNT, status=FAILED)
    need("consumer" in ended.err, "whose connection broke is not said", ended)
    need(ended.document is not None and ended.document["cut_short"], "the document is not marked", ended)


def killed(*words, name):
    """The broker's process is killed after the first row: what was measured stays, marked."""
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(harrier())

        def kill(process):
            # Rows are flushed one by one, so the first is here while the second is being measured.
            for line in process.stdout:
                lines.append(line)
                if line[:1].isdigit():
                    break
            os.kill(broker.pid, signal.SIGKILL)

        lines = []
        ended = bench(*words, "--url", broker.url(), status=FAILED, document=name, meanwhile=kill)
        ended.out = "".join(lines) + ended.out
    need(ended.err.strip(), "nothing is said", ended)
    document = ended.document
    need(document is not None, "no document of what was measured", ended)
    need(document["cut_short"], "the document does not say that it was cut short", ended)
    need(len(points(document)) >= 1 and points(document)[0][1]["runs"], "the first row is not in the document", ended)


def killed_streaming():
    killed("de-spsc", "-m", "64:1K", "-i", 400_000, name="killed-spsc")


def killed_in_ping_pong():
    killed("de-pp", "-m", "64:1K", "-i", 40_000, name="killed-pp")


def ticks(pid):
    """Ticks of processor time that a process has used."""
    with open(f"/proc/{pid}/stat") as stat:
        words = stat.read().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


def killed_at_work():
    """A broker that dies under paced publishers: one line says so, and nothing of what else could not be done then."""
    for words in (
        ("workload", "task-queue", "--seconds", 20, "--scale", 0.5),
        ("open", "--rate", 5_000, "--seconds", 20, "--pairs", 2),
    ):
        with harrier() as broker:
            before = ticks(broker.pid)

            def kill(process):
                until(lambda: ticks(broker.pid) >= before + 5 or process.poll() is not None, "the broker has no work")
                os.kill(broker.pid, signal.SIGKILL)

            name = f"killed-{words[0]}"
            ended = bench(*words, "--url", broker.url(), status=FAILED, document=name, meanwhile=kill)
        lines = ended.err.strip().splitlines()
        need(len(lines) == 1 and "harrier: the broker ended" in lines[0], f"{len(lines)} lines", ended)
        need(ended.document and ended.document["cut_short"], "the document is not marked", ended)


def interrupted():
    """Ctrl-C keeps what there is, and says so."""

    def interrupt(process):
        for line in process.stdout:
            if line[:1].isdigit():
                break
        process.send_signal(signal.SIGINT)

    words = ("de-pp", "-m", "64:1K", "-i", 40_000)
    ended = bench(*words, status=130, document="interrupted", meanwhile=interrupt)
    need("interrupted" in ended.err, "it does not say why", ended)
    need(ended.document and ended.document["cut_short"] and points(ended.document), "the document is not marked", ended)


def never_answers():
    with silent() as mute:
        url = f"amqp://127.0.0.1:{mute.port}"
        ended = bench("de-spsc", "-m", "64:64", "-i", 10, "--url", url, status=FAILED, deadline_s=60)
    need(str(mute.port) in ended.err, "which broker is not said", ended)


def speaks_another_protocol():
    for words in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x00\x09\x00", b""):
        with silent(words) as other:
            url = f"amqp://127.0.0.1:{other.port}"
            ended = bench("de-spsc", "-m", "64:64", "-i", 10, "--url", url, status=FAILED)
        need(str(other.port) in ended.err, "which broker is not said", ended)


def refuses():
    # A port that is bound and at which nobody listens: no other program can get it meanwhile.
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        ended = bench("de-spsc", "-m", "64:64", "-i", 10, "--url", f"amqp://127.0.0.1:{port}", status=FAILED)
    need("refused" in ended.err and str(port) in ended.err, "who refused is not said", ended)


EXPECTATIONS = {
    "faulty lost": lost,
    "faulty doubled": doubled,
    "faulty reordered": reordered,
    "faulty stray": stray,
    "faulty damaged": damaged,
    "faulty damaged-unchecked": damaged_unchecked,
    "faulty lost-round-trip": lost_round_trip,
    "faulty lost-among-many": lost_among_many,
    "faulty lost-among-many-pairs": lost_among_many_pairs,
    "faulty lost-with-confirms": lost_with_confirms,
    "faulty lost-in-a-backlog": lost_in_a_backlog,
    "faulty lost-in-open-loop": lost_in_open_loop,
    "faulty partial-results": partial_results_of_the_invalid,
    "faulty slow": slow,
    "faulty falls-silent": falls_silent,
    "faulty cut": cut,
    "faulty killed-streaming": killed_streaming,
    "faulty killed-in-ping-pong": killed_in_ping_pong,
    "faulty killed-at-work": killed_at_work,
    "faulty interrupted": interrupted,
    "faulty never-answers": never_answers,
    "faulty another-protocol": speaks_another_protocol,
    "faulty refuses": refuses,
}

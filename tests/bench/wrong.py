"""What a user may get wrong: each gets a clear word and a status, and nothing is left running.

Enters: command lines, limits of the system.  Leaves: EXPECTATIONS by name; all may run at once.
Owns:   a broker where one is needed.
Never:  accepts a status without the words.
"""

import resource

from scene import FAILED, OUT, USAGE, bench, harrier, need, points

# name: (words, status, what standard error must have)
LINES = {
    "no-command": ("", USAGE, "usage: harrier bench COMMAND"),
    "unknown-command": ("nonsense", USAGE, "unknown command 'nonsense'"),
    "unknown-option": ("de-spsc --nonsense", USAGE, "unknown option '--nonsense'"),
    "unknown-letter": ("de-spsc -z", USAGE, "unknown option '-z'"),
    "missing-value": ("de-spsc -m", USAGE, "needs a value"),
    "a-word-too-many": ("de-spsc something", USAGE, "something"),
    "sizes-from-zero": ("de-spsc -m 0:8", USAGE, "size"),
    "sizes-upside-down": ("de-spsc -m 8:1", USAGE, "size"),
    "sizes-no-number": ("de-spsc -m one:two", USAGE, "one"),
    "sizes-beyond-limit": ("de-spsc -m 1:1024M", USAGE, "size"),
    "iterations-zero": ("de-spsc -i 0", USAGE, "iterations"),
    "iterations-no-number": ("de-spsc -i many", USAGE, "many"),
    "iterations-beyond-limit": ("de-spsc -i 99999999999999999999", USAGE, "iterations"),
    "runs-zero": ("de-spsc --runs 0", USAGE, "runs"),
    "unknown-format": ("de-spsc --format xml", USAGE, "xml"),
    "unknown-place": ("de-spsc --cpus broker=999", FAILED, "999"),
    "cpus-nonsense": ("de-spsc --cpus nonsense", USAGE, "nonsense"),
    "url-of-another-scheme": ("de-spsc --url http://127.0.0.1", USAGE, "http://127.0.0.1"),
    "url-without-scheme": ("de-spsc --url 127.0.0.1:5672", USAGE, "127.0.0.1:5672"),
    "url-with-a-wrong-port": ("de-spsc --url amqp://127.0.0.1:99999", USAGE, "99999"),
    "host-that-is-not-there": ("de-spsc -m 1:1 --url amqp://nowhere.invalid", FAILED, "nowhere.invalid"),
    "socket-that-is-not-there": ("de-spsc -m 1:1 --url amqp+unix:/nowhere/socket", FAILED, "/nowhere/socket"),
    "broker-command-that-is-not-there": ("de-spsc -m 1:1 --broker-command /nowhere/broker", FAILED, "/nowhere/broker"),
    "broker-that-ends": ("de-spsc -m 1:1 --broker-command false", FAILED, "broker"),
    "broker-option-unknown": ("de-spsc -m 1:1 --broker-options --nonsense", FAILED, "nonsense"),
    "broker-pid-of-nobody": ("de-spsc -m 1:1 -i 10 --broker-pid 4194305", (FAILED, USAGE), "4194305"),
    "compare-one": ("compare a.json", USAGE, "two"),
    "compare-missing": ("compare /nowhere/a.json /nowhere/b.json", USAGE, "/nowhere/a.json"),
    "report-missing": ("report /nowhere/a.json", USAGE, "/nowhere/a.json"),
    "workload-missing": ("workload /nowhere/a.toml", USAGE, "/nowhere/a.toml"),
    "workload-none": ("workload", USAGE, "FILE"),
}


def line(words, status, said):
    ended = bench(*words.split(), status=status)
    need(said in ended.err, f"standard error lacks '{said}'", ended)
    need(not ended.rows(), "there are figures", ended)


def wrong_password():
    with harrier() as broker:
        ended = bench("de-spsc", "-m", "1:1", "-i", 10, "--url", broker.url(password="wrong"), status=FAILED)
        need("403" in ended.err and "guest" in ended.err, "the refusal of the login is not told", ended)
        need("wrong" not in ended.out + ended.err.replace("went wrong", ""), "the password is told", ended)


def unknown_vhost():
    with harrier() as broker:
        ended = bench("de-spsc", "-m", "1:1", "-i", 10, "--url", broker.url(vhost="nowhere"), status=FAILED)
        need("nowhere" in ended.err, "the virtual host is not told", ended)


def size_over_the_brokers_limit():
    """The broker takes 64 KiB: what fits is measured and kept, what does not is told with the broker's words."""
    with harrier("--message-bytes-max", "65536") as broker:
        words = ("de-spsc", "-m", "16K:256K", "-i", 20, "--url", broker.url())
        ended = bench(*words, status=FAILED, document="over-limit")
        need("65536" in ended.err or "max size" in ended.err, "the limit is not told", ended)
        need(ended.document and ended.document["cut_short"], "the document is not marked", ended)
        sizes = [point["at"] for _, point in points(ended.document)]
        need(sizes == [16384, 32768, 65536], f"kept: {sizes}", ended)


def descriptors(most):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def too_few_descriptors():
    """64 consumers in one process need more than 24 files; the broker beside it has as many as it likes."""
    with harrier() as broker:
        words = ("fe-spmc", "-m", "1:1", "-i", 10, "--consumers", "64", "--url", broker.url())
        ended = bench(*words, status=FAILED, before=descriptors(24))
    need("open files" in ended.err, "what there is too little of is not said", ended)


def too_few_descriptors_to_begin_with():
    ended = bench("de-spsc", "-m", "1:1", "-i", 10, status=FAILED, before=descriptors(5))
    need("open files" in ended.err, "what there is too little of is not said", ended)


def unwritable_document():
    """Told before anything is measured, or at the latest with the measurement's end; never with status 0."""
    ended = bench("de-spsc", "-m", "1:1", "-i", 10, "--json", "/proc/nowhere/a.json", status=FAILED)
    need("/proc/nowhere" in ended.err, "which file is not said", ended)


def no_document():
    """Files that are no documents, or of another schema."""
    for name, text, said in (
        ("empty", "", "JSON"),
        ("other", "{}", "schema"),
        ("later", '{"schema": "harrier-bench/9.0"}', "9.0"),
    ):
        path = OUT / f"no-document-{name}.json"
        path.write_text(text)
        ended = bench("compare", path, path, status=USAGE)
        need(said in ended.err and str(path) in ended.err, f"standard error lacks '{said}' or the file", ended)


def wrong_workload():
    good = bench("workload", "--show", "market-data").out
    for name, text, said in (
        ("no-toml", "[[[", ".toml:1:"),
        ("unknown-key", "nonsense = 1\n" + good, "nonsense"),
        ("empty", "", "needs at least one"),
    ):
        path = OUT / f"wrong-workload-{name}.toml"
        path.write_text(text)
        ended = bench("workload", path, status=USAGE)
        need(said in ended.err and str(path) in ended.err, f"standard error lacks '{said}' or the file", ended)


EXPECTATIONS = {f"wrong {name}": (line, *case) for name, case in LINES.items()} | {
    f"wrong {name}": (body,)
    for name, body in {
        "password": wrong_password,
        "vhost": unknown_vhost,
        "size-over-the-brokers-limit": size_over_the_brokers_limit,
        "too-few-descriptors": too_few_descriptors,
        "too-few-descriptors-to-begin-with": too_few_descriptors_to_begin_with,
        "unwritable-document": unwritable_document,
        "no-document": no_document,
        "workload": wrong_workload,
    }.items()
}

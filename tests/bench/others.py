"""What goes beyond one benchmark on one broker: formats, comparisons, several brokers in turns, the suite, shipped workloads.

Enters: the program.  Leaves: EXPECTATIONS by name.
Owns:   documents in out/bench-tests.
Never:  says that a run was fast or slow.
"""

import csv
import io
import json
import time

import each
from scene import BROKERS, FAILED, INVALID, OUT, PROGRAM, TREE, WELL, bench, harrier, need, points, runs, whole

BRIEF = ("de-spsc", "-m", "64:256", "-i", 500)


def formats():
    """The same run in the four formats; JSON on standard output is a document, CSV has the columns of the table."""
    table = bench(*BRIEF, "--format", "osu", status=(WELL, INVALID))
    need(len(table.rows()) == 3, "there are not three rows", table)
    text = bench(*BRIEF, "--format", "json", status=(WELL, INVALID))
    document = json.loads(text.out)
    need(len(points(document)) == 3, "there are not three points", text)
    rows = bench(*BRIEF, "--format", "csv", status=(WELL, INVALID))
    read = list(csv.DictReader(io.StringIO(rows.out)))
    need(len(read) == 3, "there are not three lines", rows)
    marked = bench(*BRIEF, "--format", "md", status=(WELL, INVALID))
    need(marked.out.count("\n|") >= 5, "there is no table", marked)


def all_columns():
    few, many = (bench(*BRIEF, *more, status=(WELL, INVALID)) for more in ((), ("-f",)))
    need(len(many.rows()[0]) > len(few.rows()[0]) + 3, "-f shows no more columns", many)
    need(few.rows()[0][0] == many.rows()[0][0] == "64", "the first column is not the size", many)


def html():
    path = OUT / "page.html"
    ended = bench(*BRIEF, "--html", path, status=(WELL, INVALID))
    text = path.read_text()
    need("<svg" in text and "<table" in text, "the page has no figure or no table", ended)
    need(
        "http://" not in text.replace("http://www.w3.org/", "") and "src=" not in text,
        "it is not self-contained",
        ended,
    )


def against():
    """Two brokers in turns in one run: a series each, ratios on standard output."""
    with harrier() as other:
        ended = bench(
            *BRIEF, "--runs", 3, "--against", other.url(), status=(WELL, INVALID), document="against", deadline_s=60
        )
        document = whole(ended)
    need(len(document["targets"]) == 2, "there are not two targets", ended)
    need(len({series["target"] for series in document["series"]}) == 2, "there are not two series", ended)
    need(all(len(point["runs"]) == 3 for _, point in points(document)), "there are not three runs each", ended)
    need("ratio" in ended.out.lower(), "no ratio is printed", ended)
    need("within each turn" in ended.out, "which ratio it is is not said", ended)


def compare():
    """Two runs of the same: what differs is noise or a change, and each line says which."""
    for name in ("compare-a", "compare-b"):
        whole(bench(*BRIEF, "--runs", 3, status=(WELL, INVALID), document=name))
    ended = bench("compare", OUT / "compare-a.json", OUT / "compare-b.json")
    need("noise" in ended.out, "nothing is said of noise", ended)
    same = bench("compare", OUT / "compare-a.json", OUT / "compare-a.json")
    need("noise" in same.out, "a document differs from itself", same)


def broker_found_by_pid():
    with harrier() as broker:
        ended = bench(
            *BRIEF, "--url", broker.url(), "--broker-pid", broker.pid, status=(WELL, INVALID), document="by-pid"
        )
        need(all(run["broker"] for run in runs(whole(ended))), "what the broker used is missing", ended)


def unix_socket():
    path = OUT / "socket"
    with harrier("--listen", f"unix:{path}"):
        ended = bench(*BRIEF, "--url", f"amqp+unix:{path}", status=(WELL, INVALID), document="unix")
        document = whole(ended)
    need(document["targets"][0]["transport"] == "unix", f"targets: {document['targets']}", ended)
    need(all(run["broker"] for run in runs(document)), "what the broker used is missing", ended)


def own_ceiling():
    """The generator alone, one hop of sockets alone, and the shares of the one in the other; what is near is named."""
    ended = bench(*BRIEF, "--null", "--runs", 2, status=(WELL, INVALID), document="null")
    document = whole(ended)
    names = [target["name"] for target in document["targets"]]
    need(names == ["harrier", "null-sink", "null-source", "one-hop"], f"targets: {names}", ended)
    need(all(len(point["runs"]) == 2 for _, point in points(document)), "there are not two runs each", ended)
    head = next(line for line in ended.out.splitlines() if line.startswith("# Size"))
    for column in ("of null-sink", "of null-source", "one-hop Messages/s", "null-sink of one-hop", "null-source of one-hop"):
        need(column in head, f"there is no column '{column}'", ended)
    for row in ended.rows():
        figures = [float(word) for word in row if word != "*"]
        need(all(figure > 0 for figure in figures), f"a figure is missing in {row}", ended)
        size, of_sink, of_source = figures[0], figures[-6], figures[-4]
        for null, share in (("null-sink", of_sink), ("null-source", of_source)):
            said = any(line.startswith(f"# {size:.0f}: {null} is ") for line in ended.out.splitlines())
            # Nearer than a third, and not so near to it that the digits shown hide on which side.
            need(said == (share > 1 / 3) or abs(share - 1 / 3) < 1e-4, f"{null} of {size}: share {share}, told {said}", ended)


def largest_of_all():
    """No column of a maximum lies below a quantile of its row, whatever the runs."""
    ended = bench("de-pp", "-m", "1:4", "-i", 2_000, "--runs", 6, "-f", status=(WELL, INVALID), document="largest")
    names = next(line for line in ended.out.splitlines() if line.startswith("# Size"))
    columns = [name for name in names.removeprefix("# ").split("  ") if name.strip()]
    columns = [name.strip() for name in columns]
    for row in ended.rows():
        shown = dict(zip(columns, row))
        quantiles = [float(shown[name]) for name in columns if name.startswith("RTT p") and shown[name] != "-"]
        need(len(quantiles) >= 3, f"columns: {columns}", ended)
        need(float(shown["RTT max (us)"]) >= max(quantiles), f"{row}", ended)


def queue_bytes():
    """A limit of the queues' bytes is asked for in open loop and in workloads, acted on, and told."""
    for words in (
        ("open", "--rate", 500, "--seconds", 1, "--warm-up", 0.2),
        ("workload", "task-queue", "--seconds", 1, "--scale", 0.1),
    ):
        ended = bench(*words, "--queue-bytes", 1 << 30, status=(WELL, INVALID), document=f"queue-bytes-{words[0]}")
        notes = [note for run in runs(whole(ended)) for note in run["notes"]]
        need(any(f"at most {1 << 30} bytes" in note for note in notes), f"notes: {notes}", ended)


def workloads():
    """Every shipped workload is listed, shown and documented, and among the brief runs of each broker."""
    listed = [line.split()[0] for line in bench("workload", "--list").out.splitlines() if line[:1].isalpha()]
    need(len(listed) >= 5, f"shipped: {listed}")
    brief = {words.split()[0] for words in each.BRIEF["workload"]}
    need(brief == set(listed), f"shipped: {listed}, run: {sorted(brief)}")
    for name in listed:
        shown = bench("workload", "--show", name)
        path = OUT / f"shown-{name}.toml"
        path.write_text(shown.out)
        ended = bench(
            "workload", path, "--seconds", 1, "--scale", 0.02, status=(WELL, INVALID), document=f"shown-{name}"
        )
        need(points(ended.document), "its own file is not taken back", ended)


def saved():
    """What was saved is shown again, in every format and as a page."""
    whole(bench(*BRIEF, status=(WELL, INVALID), document="saved"))
    path, page = OUT / "saved.json", OUT / "saved.html"
    table = bench("report", path)
    need(len(table.rows()) == 3, "there are not three rows", table)
    again = bench("report", path, "--format", "json")
    need(json.loads(again.out) == json.loads(path.read_text()), "the document is another one", again)
    bench("report", path, path, "--html", page)
    need("<svg" in page.read_text(), "the page has no figure")


def market():
    """The stock exchange through RabbitMQ and through Harrier: the same trades, whoever carries the orders."""
    with BROKERS["rabbitmq"]() as broker, harrier() as own:
        words = ("run", "--rate", "max", "--orders", 20_000, "--url", broker.url(), "--against", own.url())
        # RabbitMQ stands still while the other is measured, and goes on.
        for more in ((), ("--confirms", "--pause-others")):
            ended = bench(
                *words, *more, command="market", status=(WELL, INVALID), document="market", deadline_s=120
            )
            document = whole(ended)
            need(len(document["targets"]) == 2, "there are not two targets", ended)
            checksums = {line.split("checksum of all trades ")[1] for line in ended.out.splitlines() if "checksum" in line}
            need(len(checksums) == 1, f"checksums: {checksums}", ended)
            need(all(run["delivered"] == 20_000 for run in runs(document)), "an order was not taken", ended)


def durable_columns():
    """Rows of persistent messages show what the store and the disk got, and those beside them do not."""
    ended = bench("confirm", "-m", "64:64", "-i", 500, "--durable", status=(WELL, INVALID), document="durable-columns")
    document = whole(ended)
    names = ("Messages/group", "Syncs/s", "Disk MB/s", "Disk bytes/msg")
    heads = [line for line in ended.out.splitlines() if line.startswith("# Size")]
    need([all(name in head for name in names) for head in heads] == [False, True], f"heads: {heads}", ended)
    transient, durable = (series["points"][0]["runs"][0] for series in document["series"])
    need(transient["store"] is None and durable["store"]["groups"] > 0, "the store's counts are missing", ended)
    need(durable["store"]["bytes"] > 500 * 64, f"store: {durable['store']}", ended)


def recover():
    """A killed broker comes back with everything, whoever made it; one that forgets is told as such."""
    scripts = TREE / "tests" / "rabbitmq"
    words = ("recover", "-m", "64:64", "-i", 500)
    ended = bench(
        *words, "--against-scripts", scripts, status=(WELL, INVALID), document="recover", deadline_s=240
    )
    document = ended.document
    need(document is not None, "no document was written", ended)
    need([facts["product"] for facts in document["targets"]] == ["Harrier", "RabbitMQ"], "other brokers", ended)
    # RabbitMQ confirms before it has written to a file: on a busy machine a kill may lose what it had, and the program says so.
    forgotten = [
        series
        for series in document["series"]
        if series["target"] == "rabbitmq" and any(run["faults"]["lost"] for run in runs({"series": [series]}))
    ]
    for run in runs({"series": forgotten}):
        need(run["delivered"] + run["faults"]["lost"] == 500, "messages are unaccounted for", ended)
        need(any("lost" in why for why in run["invalid"]), f"invalid: {run['invalid']}", ended)
    document["series"] = [series for series in document["series"] if series not in forgotten]
    if forgotten:
        need(ended.status == INVALID, "a loss has status 3", ended)
        ended.status = WELL
    whole(ended)
    for series, point in points(document):
        for run in point["runs"]:
            back = run["recovery"]
            need((back is not None) == (series["parameters"]["phase"] == "recover"), f"recovery: {back}", ended)
            need(not back or back["first_delivery_s"] >= 0, f"recovery: {back}", ended)
            need(not back or run["delivered"] == 500, "messages are missing", ended)
    forgetful = OUT / "forgetful"
    forgetful.mkdir(exist_ok=True)
    start = f"""#!/bin/sh
# The second start finds its port taken once.
if [ "$2" != 0 ] && [ ! -e "$1/taken" ]; then touch "$1/taken"; exit 98; fi
rm -f "$1/log"
{PROGRAM} broker --state none --log-format json --listen 127.0.0.1:$2 >"$1/log" 2>&1 </dev/null &
echo $! >"$1/pid"
while kill -0 $! && ! grep -q "harrier broker is ready" "$1/log"; do sleep 0.02; done
grep -q "os error 98" "$1/log" && exit 98
echo "pid $!"
sed -n 's|.*"addresses":"\\([^"]*\\)".*|url amqp://guest:guest@\\1/%2F|p' "$1/log"
"""
    stop = """#!/bin/sh
[ -s "$1/pid" ] && kill "$(cat "$1/pid")" 2>"$1/stop.log"
[ "${2:-}" = --wipe ] && rm -rf "$1"
exit 0
"""
    for name, text in (("start", start), ("stop", stop)):
        (forgetful / name).write_text(text)
        (forgetful / name).chmod(0o755)
    ended = bench(*words, "--scripts", forgetful, status=INVALID, document="forgetful", deadline_s=120)
    lost = [run["faults"]["lost"] for run in runs(ended.document)]
    need(lost == [0, 500], f"lost: {lost}", ended)
    (forgetful / "start").write_text("#!/bin/sh\n[ \"$2\" != 0 ] && exit 98\n" + start.partition("\n")[2])
    ended = bench(*words, "--scripts", forgetful, status=FAILED, deadline_s=120)
    need("another program has held the broker's port for 5 s" in ended.err, "whose port it is is not said", ended)


def suite():
    """How long it takes is printed, and judged by nobody here."""
    began = time.monotonic()
    ended = bench("suite", "--quick", "--out", OUT / "suite", status=(WELL, INVALID), deadline_s=400)
    print(f"# suite --quick took {time.monotonic() - began:.0f} s", flush=True)
    for name in ("report.html", "report.json"):
        need((OUT / "suite" / name).exists(), f"{name} was not written", ended)
    need(points(json.loads((OUT / "suite" / "report.json").read_text())), "nothing was measured", ended)


EXPECTATIONS = {
    "others formats": formats,
    "others all-columns": all_columns,
    "others html": html,
    "others against": against,
    "others compare": compare,
    "others broker-by-pid": broker_found_by_pid,
    "others unix-socket": unix_socket,
    "others null": own_ceiling,
    "others largest": largest_of_all,
    "others queue-bytes": queue_bytes,
    "others workloads": workloads,
    "others saved": saved,
    "others market": market,
    "others durable-columns": durable_columns,
    "others recover": recover,
    "others suite-quick": suite,
}

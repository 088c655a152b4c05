"""Scrapes a living daemon and reads the scrape with the parser of Prometheus' own Python client.

    scrape.py URL DOCS_METRICS_MD

Prints one line for each test; exit status 1 when one failed.
"""

import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

URL, PAGE = sys.argv[1:]
# Everything that a label must escape, and what only looks as if it had to.
NAME = 'a"b\\c}é😀{x="y",z'
FAILED = []


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data=data, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers, answer.read().decode()


def test(name, is_right, what=""):
    print(("PASS " if is_right else "FAIL ") + name + ("" if is_right else f": {what}"))
    if not is_right:
        FAILED.append(name)


def scrape():
    headers, text = call("GET", "/metrics")
    families = list(text_string_to_metric_families(text))
    return headers, families, {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }, text


def full_name(family):
    """Counters lose their ending in the parser."""
    return family.name + "_total" if family.type == "counter" else family.name


path = "/api/v1/queues/" + urllib.parse.quote(NAME, safe="")
call("PUT", path, {"max_length": 2})
before = scrape()[2]
for _ in range(2):
    call("POST", path + "/messages", {"payload": "m"})
try:
    call("POST", path + "/messages", {"payload": "one too many"})
    test("a full queue refuses", False, "it took the message")
except urllib.error.HTTPError as error:
    test("a full queue refuses", error.code == 429, error.code)
headers, families, after, text = scrape()

label = (("queue", NAME),)
values = {
    "qwerq_messages_published_total": 2,
    "qwerq_queue_depth": 2,
    "qwerq_in_flight_count": 0,
    "qwerq_queue_full_errors_total": 1,
    "qwerq_publish_latency_seconds_count": 2,
    "qwerq_call_requests_total": 0,
    "qwerq_call_timeouts_total": 0,
}
for name, value in values.items():
    test(f"value of {name}", after.get((name, label)) == value, after.get((name, label)))
age = after.get(("qq_queue_oldest_message_age_seconds", label))
test("the oldest message has an age", age is not None and age >= 0, age)
full = ("qq_limit_refusals_total", (("limit", "queue_full"),))
test("refusals by limit", after[full] - before[full] == 1, after[full])
is_typed = headers["Content-Type"].startswith("text/plain; version=0.0.4")
test("content type", is_typed, headers["Content-Type"])

names = [full_name(family) for family in families]
test("every family once", len(names) == len(set(names)), sorted(names))
lines = [line for line in text.splitlines() if not line.startswith("#")]
series = [line.rsplit(" ", 1)[0] for line in lines]
test("every series once", len(series) == len(set(series)))
undocumented = [family for family in families if not family.documentation]
test("every family has a help", not undocumented, undocumented)

rows = re.findall(r"^\| `([a-z_]+)` \| (counter|gauge|histogram) \|", open(PAGE).read(), re.M)
served = {full_name(family): family.type for family in families}
missing = {name: kind for name, kind in rows if served.get(name) != kind}
test("the page says what there is", not missing and len(rows) == len(served), (missing, set(served) - {n for n, _ in rows}))

fell = {key: (value, after.get(key)) for key, value in before.items()
        if key[0].endswith(("_total", "_count", "_bucket")) and after.get(key, -1) < value}
test("counters do not fall", not fell, fell)
for family in families:
    if family.type != "histogram":
        continue
    of_label = {}
    for sample in family.samples:
        rest = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        of_label.setdefault(rest, {"buckets": []})
        if sample.name.endswith("_bucket"):
            of_label[rest]["buckets"].append((float(sample.labels["le"]), sample.value))
        else:
            of_label[rest][sample.name.rsplit("_", 1)[1]] = sample.value
    wrong = [
        (rest, found)
        for rest, found in of_label.items()
        if found["buckets"] != sorted(found["buckets"])
        or [count for _, count in found["buckets"]] != sorted(count for _, count in found["buckets"])
        or found["buckets"][-1] != (float("inf"), found["count"])
        or "sum" not in found
    ]
    test(f"buckets of {family.name} add up", of_label and not wrong, wrong)

call("DELETE", path + "?delete=true")
gone = [key for key in scrape()[2] if dict(key[1]).get("queue") == NAME]
test("a deleted queue takes its series with it", not gone, gone)
sys.exit(1 if FAILED else 0)

"""10,000 durable queues with one message each: many_queues.py QQD"""

import http.client
import json
import statistics
import sys
import threading
import time

from bed import Daemon

QUEUES = 10_000
WRITERS = 20
TYPE = {"Content-Type": "application/json"}


def ask(http_, method, path, body=None):
    http_.request(method, path, body, TYPE if body else {})
    response = http_.getresponse()
    data = response.read()
    if response.status >= 300:
        raise SystemExit(f"{method} {path}: {response.status} {data[:200]}")
    return data


def fill(port, numbers):
    http_ = http.client.HTTPConnection("127.0.0.1", port)
    message = json.dumps({"payload": "x" * 100})
    for number in numbers:
        ask(http_, "PUT", f"/api/v1/queues/q{number}", "{}")
        ask(http_, "POST", f"/api/v1/queues/q{number}/messages", message)


def main(program):
    daemon = Daemon(program, "sqlite")
    print(f"start, empty: {daemon.start() * 1000:.1f} ms, {daemon.resident_mb():.1f} MB resident")
    begin = time.monotonic()
    writers = [threading.Thread(target=fill, args=(daemon.http, range(i, QUEUES, WRITERS))) for i in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    print(f"{QUEUES} queues in {time.monotonic() - begin:.1f} s, {daemon.resident_mb():.1f} MB resident")
    http_ = http.client.HTTPConnection("127.0.0.1", daemon.http)
    for path in [f"/api/v1/queues?limit={QUEUES}", "/metrics", "/api/v1/queues?limit=50&sort=-depth"]:
        times = []
        for _ in range(9):
            begin = time.perf_counter()
            size = len(ask(http_, "GET", path))
            times.append((time.perf_counter() - begin) * 1000)
        print(f"GET {path}: {size} bytes, {statistics.median(times):.1f} ms (at most {max(times):.1f})")
    print(f"{daemon.resident_mb():.1f} MB resident after that")
    for _ in range(3):
        daemon.stop()
        took = daemon.start()
        print(f"restart: {took * 1000:.0f} ms, {daemon.resident_mb():.1f} MB resident")
    daemon.close()


main(*sys.argv[1:])

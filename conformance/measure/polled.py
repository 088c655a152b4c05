"""The rate of a load generator with and without a list of 10,000 queues each second.

polled.py QQD COMMAND...: PORT and PID in the command stand for those of the daemon; it prints JSON with `received_per_s`.
"""

import http.client
import json
import statistics
import subprocess
import sys
import threading
import time

from bed import Daemon, spread

QUEUES = 10_000
ROUNDS = 5


def rate(command):
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output)["received_per_s"]


class Poller(threading.Thread):
    """Lists all queues each second until it is told to stop."""

    def __init__(self, port, times):
        super().__init__()
        self.port, self.times, self.over = port, times, threading.Event()

    def run(self):
        http_ = http.client.HTTPConnection("127.0.0.1", self.port)
        while not self.over.wait(1):
            begin = time.perf_counter()
            http_.request("GET", f"/api/v1/queues?limit={QUEUES}")
            http_.getresponse().read()
            self.times.append((time.perf_counter() - begin) * 1000)


def main(program, *command):
    more = "".join(f'[[queue]]\nname = "q{i}"\n' for i in range(QUEUES))
    daemon = Daemon(program, "memory", more)
    daemon.start()
    stands_for = {"PORT": str(daemon.amqp), "PID": str(daemon.process.pid)}
    command = [stands_for.get(word, word) for word in command]
    ratios, times = [], []
    for _ in range(ROUNDS):
        alone = rate(command)
        poller = Poller(daemon.http, times)
        poller.start()
        polled = rate(command)
        poller.over.set()
        poller.join()
        ratios.append(polled / alone)
        print(f"alone {alone}/s, polled {polled}/s: {ratios[-1]:.3f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.3f}; a list took ms {spread(times)}")
    daemon.close()


main(*sys.argv[1:])

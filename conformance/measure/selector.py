"""A receiver whose selector matches 1 in 1,000 of a long queue, beside others: selector.py QQD memory|sqlite [N]"""

import sys
import threading
import time

import proton
from proton.handlers import MessagingHandler
from proton.reactor import Container, Selector
from proton.utils import BlockingConnection

from bed import Daemon, spread


class Fill(MessagingHandler):
    """Sends `count` messages that are numbered from 0 to 999 again and again."""

    def __init__(self, url, count):
        super().__init__()
        self.url, self.count, self.sent, self.confirmed = url, count, 0, 0

    def on_start(self, event):
        self.connection = event.container.connect(self.url, allowed_mechs="ANONYMOUS")
        event.container.create_sender(self.connection, "long")

    def on_sendable(self, event):
        while event.sender.credit and self.sent < self.count:
            number = proton.int32(self.sent % 1000)
            event.sender.send(proton.Message("x" * 100, durable=True, properties={"n": number}))
            self.sent += 1

    def on_accepted(self, event):
        self.confirmed += 1
        if self.confirmed == self.count:
            self.connection.close()


class Select(MessagingHandler):
    """Receives what the selector matches until all of it was seen."""

    def __init__(self, url, wanted):
        super().__init__(prefetch=2000)
        self.url, self.wanted, self.seen = url, wanted, 0

    def on_start(self, event):
        self.begin = time.monotonic()
        self.connection = event.container.connect(self.url, allowed_mechs="ANONYMOUS")
        event.container.create_receiver(self.connection, "long", options=Selector("n = 7"))

    def on_message(self, event):
        if event.message.properties["n"] != 7:
            raise SystemExit("a message that the selector does not match")
        self.seen += 1
        if self.seen == self.wanted:
            self.took = time.monotonic() - self.begin
            self.connection.close()


class Other(threading.Thread):
    """Takes one message after the other from a queue and notes how long each took; `sends` what it takes itself."""

    def __init__(self, url, address, sends):
        super().__init__()
        self.url, self.address, self.sends, self.times, self.over = url, address, sends, [], False

    def run(self):
        connection = BlockingConnection(self.url, allowed_mechs="ANONYMOUS", timeout=60)
        receiver = connection.create_receiver(self.address, credit=1)
        sender = connection.create_sender(self.address) if self.sends else None
        while not self.over:
            begin = time.perf_counter()
            if sender:
                sender.send(proton.Message("y"))
            receiver.receive(timeout=30)
            receiver.accept()
            self.times.append((time.perf_counter() - begin) * 1000)
        connection.close()


def main(program, store, count=1_000_000):
    count = int(count)
    daemon = Daemon(program, store)
    daemon.start()
    url = f"127.0.0.1:{daemon.amqp}"
    Container(Fill(url, count)).run()
    print(f"{count} messages wait, {daemon.resident_mb():.1f} MB resident", flush=True)
    others = [Other(url, "long", False), Other(url, "short", True)]
    for other in others:
        other.start()
    time.sleep(3)
    for other in others:
        print(f"before, one message of queue {other.address}, ms: {spread(other.times)}", flush=True)
        other.times.clear()
    before = daemon.cpu_seconds()
    # The plain receiver of the queue takes some of those that match.
    select = Select(url, count // 1000 - 50)
    Container(select).run()
    cpu = daemon.cpu_seconds() - before
    print(f"selector: {select.seen} found in {select.took:.2f} s; CPU of the broker {cpu:.2f} s with the others")
    for other in others:
        print(f"meanwhile, one message of queue {other.address}, ms: {spread(other.times)}")
        other.over = True
    for other in others:
        other.join()
    print(f"{daemon.resident_mb():.1f} MB resident")
    daemon.close()


main(*sys.argv[1:])

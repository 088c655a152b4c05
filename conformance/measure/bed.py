"""A daemon to measure: its configuration, its start, its memory and its CPU time."""

import os
import shutil
import socket
import subprocess
import tempfile
import time

CONFIGURATION = """\
[server]
amqp_port = {amqp}
binary_port = 0

[management]
port = {http}

[storage]
backend = "{store}"
path = "{path}"

[defaults]
auto_create_queues = true

[limits]
queues_max = 20_000

[logging]
level = "warn"
{more}
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Daemon:
    """One `qqd` and its folder. `start` may be called again after `stop`: the store is kept until `close`."""

    def __init__(self, program, store, more=""):
        self.program = program
        self.folder = tempfile.mkdtemp(prefix="qq-measure-")
        self.amqp, self.http = free_ports(2)
        self.file = os.path.join(self.folder, "qqd.toml")
        with open(self.file, "w", encoding="utf-8") as file:
            path = os.path.join(self.folder, "data")
            text = CONFIGURATION.format(amqp=self.amqp, http=self.http, store=store, path=path, more=more)
            file.write(text)
        self.process = None

    def start(self):
        """Returns the seconds until the first connection got its protocol header."""
        begin = time.monotonic()
        self.process = subprocess.Popen([self.program, "--config", self.file])
        while True:
            if self.process.poll() is not None:
                raise SystemExit(f"the daemon ended with status {self.process.returncode}")
            try:
                with socket.create_connection(("127.0.0.1", self.amqp), 0.2) as peer:
                    peer.sendall(b"AMQP\x00\x01\x00\x00")
                    if peer.recv(8):
                        return time.monotonic() - begin
            except OSError:
                time.sleep(0.001)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def close(self):
        self.stop()
        shutil.rmtree(self.folder)

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1000 * 1.024

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spread(values):
    """Median, 99th percentile and most of a list."""
    values = sorted(values)
    at = [values[len(values) // 2], values[len(values) * 99 // 100], values[-1]]
    return "{:.2f} / {:.2f} / {:.2f} (median / p99 / most, of {})".format(*at, len(values))

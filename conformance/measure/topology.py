"""Prints a `qqd` configuration for a load generator: topology.py fanout N | topic N | stream [memory|sqlite] [PORT]"""

import sys

from bed import CONFIGURATION


def queue(name):
    return f'[[queue]]\nname = "{name}"\n'


def binding(exchange, queue, key=None):
    key = f'routing_key = "{key}"\n' if key else ""
    return f'[[binding]]\nexchange = "{exchange}"\nqueue = "{queue}"\n{key}'


def fanout(count):
    """Exchange `fan` with the queues `bench-0` and so on."""
    text = '[[exchange]]\nname = "fan"\ntype = "fanout"\n'
    return text + "".join(queue(f"bench-{i}") + binding("fan", f"bench-{i}") for i in range(count))


def pattern(i):
    """Patterns of five words, of four kinds, that do not match the key that is sent."""
    a, b, c, d = i % 10, i // 10 % 10, i // 100 % 10, i // 1000
    return [
        f"w{a}.*.x{b}.y{c}.z{d}",
        f"w{a}.v{b}.x{c}.#.z{d}",
        f"eu.v{a}{b}.x{c}.y{d}.z{i}",
        f"*.v{a}.x{b}.y{c}.z{d}",
    ][i % 4]


def topic(count):
    """Exchange `topics`: one binding takes eu.berlin.orders.big.created to `bench-0`, the others lead to 100 queues."""
    text = '[[exchange]]\nname = "topics"\ntype = "topic"\n' + queue("bench-0")
    text += binding("topics", "bench-0", "eu.*.orders.#.created")
    text += "".join(queue(f"other-{i}") for i in range(min(count - 1, 100)))
    return text + "".join(binding("topics", f"other-{i % 100}", pattern(i)) for i in range(count - 1))


def main(kind, *rest):
    rest = list(rest)
    makers = {"fanout": fanout, "topic": topic}
    more = makers[kind](int(rest.pop(0))) if kind in makers else '[[stream]]\nname = "bench-0"\n'
    store = rest.pop(0) if rest else "memory"
    port = int(rest.pop(0)) if rest else 5672
    print(CONFIGURATION.format(amqp=port, http=0, store=store, path="qq-measure-data", more=more))


main(*sys.argv[1:])

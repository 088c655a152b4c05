"""The messages of the protocol, made from the tables of docs/qwer-q.md: what they do not say, this client does not know."""

import re

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SCALARS = {"string": 9, "bytes": 12, "bool": 8, "uint32": 13, "uint64": 4, "int64": 3}
OPTIONAL, REPEATED = 1, 3


def rows(text, header):
    """The cells of a table, by the line that heads it."""
    lines = text.split("\n")
    at = lines.index(header) + 2
    while at < len(lines) and lines[at].startswith("|"):
        yield [cell.strip() for cell in lines[at].strip("|").split("|")]
        at += 1


def load(path):
    """Classes of all messages and the numbers of all opcodes, by name."""
    text = open(path, encoding="utf-8").read()
    file = descriptor_pb2.FileDescriptorProto(name="doc.proto", package="doc", syntax="proto3")
    enums = set()
    for name, values in rows(text, "| enumeration | values |"):
        enums.add(name)
        enum = file.enum_type.add(name=name)
        for value in values.split(" · "):
            number, word = value.split()
            # Values of an enumeration share the scope of the file.
            enum.value.add(name=f"{name}_{word}", number=int(number))
    for name, fields in rows(text, "| message | fields |"):
        message = file.message_type.add(name=name)
        if fields != "none":
            for field in fields.split(" · "):
                add(message, enums, *field.split())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = {m.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"doc.{m.name}")) for m in file.message_type}
    opcodes = {name: int(number, 16) for number, name, *_ in rows(text, "| number | name | from | payload | answered by |")}
    return classes, opcodes


def add(message, enums, number, name, *kind):
    """A field as the table has it: `optional string`, `repeated QueueInfo`, `map`."""
    field = message.field.add(name=name, number=int(number), label=OPTIONAL)
    label, kind = (kind[0], kind[1]) if len(kind) == 2 else ("", kind[0])
    if kind == "map":
        entry = message.nested_type.add(name=re.sub("_", "", name.title()) + "Entry")
        entry.options.map_entry = True
        for at, part in ((1, "key"), (2, "value")):
            entry.field.add(name=part, number=at, label=OPTIONAL, type=SCALARS["string"])
        field.label, field.type, field.type_name = REPEATED, 11, f".doc.{message.name}.{entry.name}"
    elif kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type, field.type_name = (14 if kind in enums else 11), f".doc.{kind}"
    if label == "repeated":
        field.label = REPEATED
    if label == "optional":
        message.oneof_decl.add(name=f"_{name}")
        field.proto3_optional, field.oneof_index = True, len(message.oneof_decl) - 1

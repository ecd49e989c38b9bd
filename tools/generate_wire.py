"""Write broker/wire/constants.py and broker/wire/methods.py from the specification's XML.

Usage: python tools/generate_wire.py [--check]

Reads spec/amqp0-9-1.extended.xml (the 0-9-1 specification with the methods RabbitMQ added) and
spec/rabbitmq-additions.xml (what RabbitMQ speaks beyond that file). With --check nothing is written; the exit code is 1
when a generated file is not what the XML gives.

The generated codec is straight-line code. Fixed-width fields that follow each other, the length octet of the string
behind them included, are packed and unpacked in one go by one precompiled struct; nothing is interpreted at run time.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SPEC_FILES = (ROOT / "spec/amqp0-9-1.extended.xml", ROOT / "spec/rabbitmq-additions.xml")
CONSTANTS_FILE = ROOT / "broker/wire/constants.py"
METHODS_FILE = ROOT / "broker/wire/methods.py"
NOTICE = "generated: do not edit, run `make wire`"
LINE_MAX = 120

FIXED = {"octet": "B", "short": "H", "long": "I", "longlong": "Q", "timestamp": "Q"}
SIZES = {"B": 1, "H": 2, "I": 4, "Q": 8}
PYTHON_TYPES = {"shortstr": "str", "longstr": "bytes", "table": "Table", "bit": "bool"} | dict.fromkeys(FIXED, "int")
# confirm.select alone writes no-wait in one word; `global` is a word of Python's.
RENAMED = {"nowait": "no_wait", "global": "global_"}


@dataclass
class Argument:
    """One field of a method. Reserved ones are sent as zero or empty, and skipped when read."""

    name: str
    kind: str
    reserved: bool


@dataclass
class MethodSpec:
    """One method as the XML describes it."""

    class_name: str
    class_id: int
    name: str
    method_id: int
    has_content: bool
    client_sends: bool
    arguments: list[Argument]

    @property
    def python_name(self) -> str:
        return "".join(part.capitalize() for part in f"{self.class_name}-{self.name}".split("-"))

    @property
    def function_name(self) -> str:
        return f"decode_{self.class_name}_{self.name.replace('-', '_')}"

    @property
    def visible(self) -> list[Argument]:
        return [argument for argument in self.arguments if not argument.reserved]


# --- reading the specification ---


def read_constants(roots: Iterable[ET.Element]) -> list[tuple[str, int]]:
    return [(item.attrib["name"], int(item.attrib["value"])) for root in roots for item in root.iter("constant")]


def read_methods(roots: list[ET.Element]) -> list[MethodSpec]:
    domains = {domain.attrib["name"]: domain.attrib["type"] for root in roots for domain in root.iter("domain")}
    methods = [
        read_method(class_element, method, domains)
        for root in roots
        for class_element in root.iter("class")
        for method in class_element.iter("method")
    ]
    return sorted(methods, key=lambda method: (method.class_id, method.method_id))


def read_method(class_element: ET.Element, method: ET.Element, domains: dict[str, str]) -> MethodSpec:
    return MethodSpec(
        class_name=class_element.attrib["name"],
        class_id=int(class_element.attrib["index"]),
        name=method.attrib["name"],
        method_id=int(method.attrib["index"]),
        has_content="content" in method.attrib,
        client_sends=any(chassis.attrib["name"] == "server" for chassis in method.iter("chassis")),
        arguments=[read_argument(item, domains) for item in method.iter("field")],
    )


def read_argument(item: ET.Element, domains: dict[str, str]) -> Argument:
    kind = item.attrib.get("type") or domains[item.attrib["domain"]]
    name = item.attrib["name"].replace("-", "_")
    return Argument(RENAMED.get(name, name), kind, "reserved" in item.attrib)


# --- steps: what an encoder and a decoder do, one after the other ---


@dataclass
class Run:
    """Fixed-width items packed by one struct: (format character, argument, role)."""

    formats: str = ""
    items: list[tuple[str, Argument | None, str]] = field(default_factory=list)  # role: value, length, bits
    bit_groups: list[list[Argument]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(SIZES[character] for character in self.formats)

    def add(self, character: str, argument: Argument | None, role: str) -> None:
        self.formats += character
        self.items.append((character, argument, role))


def plan(arguments: list[Argument]) -> list[Run | Argument]:
    """Fold the arguments into fixed runs and the variable parts (strings, tables) between them."""
    steps: list[Run | Argument] = [Run()]
    previous_was_bit = False
    for argument in arguments:
        run = steps[-1] if isinstance(steps[-1], Run) else None
        if run is None:
            run = Run()
            steps.append(run)
        if argument.kind == "bit":
            if not previous_was_bit or len(run.bit_groups[-1]) == 8:
                run.add("B", None, "bits")
                run.bit_groups.append([])
            run.bit_groups[-1].append(argument)
        elif argument.kind in FIXED:
            run.add(FIXED[argument.kind], argument, "value")
        elif argument.kind == "table":
            steps.append(argument)
        else:
            run.add("B" if argument.kind == "shortstr" else "I", argument, "length")
            steps.append(argument)
        previous_was_bit = argument.kind == "bit"
    return [step for step in steps if not (isinstance(step, Run) and not step.formats)]


class Structs:
    """The precompiled structs of the generated file, one per format."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def pack(self, formats: str) -> str:
        return f"{self._name(formats)}.pack"

    def unpack(self, formats: str) -> str:
        return f"{self._name(formats)}.unpack_from"

    def _name(self, formats: str) -> str:
        return self.names.setdefault(formats, f"_{formats[1:]}")


# --- encoders ---


def encoder_lines(method: MethodSpec, structs: Structs) -> Iterator[str]:
    """Yield the body of `encode`. Reserved arguments go out as zeroes and empty strings."""
    steps = plan(method.arguments)
    if not isinstance(steps[0] if steps else None, Run):
        steps.insert(0, Run())
    head = steps[0]
    assert isinstance(head, Run)
    ids = [str(method.class_id), str(method.method_id)]
    for argument in method.visible:
        if argument.kind == "shortstr":
            yield f'{argument.name} = self.{argument.name}.encode("utf-8", "surrogateescape")'
    parts = []
    for index, step in enumerate(steps):
        if isinstance(step, Run):
            formats, values = ("HH" + step.formats, ids) if index == 0 else (step.formats, [])
            parts.append(f"{structs.pack('>' + formats)}({', '.join(values + run_values(step))})")
        elif not step.reserved:
            parts.append(variable_part(step))
    if len(parts) == 1 and not method.visible:
        payload = (method.class_id << 16 | method.method_id).to_bytes(4, "big") + bytes(head.size)
        parts = [bytes_literal(payload)]
    yield from returned(" + ".join(parts), parts)


def bytes_literal(payload: bytes) -> str:
    return 'b"' + "".join(f"\\x{byte:02x}" for byte in payload) + '"'


def run_values(run: Run) -> list[str]:
    values, groups = [], iter(run.bit_groups)
    for _, argument, role in run.items:
        if role == "bits":
            values.append(bits_value(next(groups)))
        elif argument is None or argument.reserved:
            values.append("0")
        elif role == "length":
            name = argument.name if argument.kind == "shortstr" else f"self.{argument.name}"
            values.append(f"len({name})")
        else:
            values.append(f"self.{argument.name}")
    return values


def bits_value(group: list[Argument]) -> str:
    shown = [
        f"self.{argument.name}" + (f" << {position}" if position else "")
        for position, argument in enumerate(group)
        if not argument.reserved
    ]
    return " | ".join(shown) or "0"


def variable_part(argument: Argument) -> str:
    if argument.kind == "table":
        return f"encode_table(self.{argument.name})"
    return argument.name if argument.kind == "shortstr" else f"self.{argument.name}"


def returned(joined: str, parts: list[str]) -> Iterator[str]:
    if len(joined) + 15 <= LINE_MAX:
        yield f"return {joined}"
        return
    yield "return ("
    if len(joined) + 12 <= LINE_MAX:
        yield f"    {joined}"
    else:
        for index, part in enumerate(parts):
            function, _, arguments = part.rpartition("(") if part.endswith(")") else (part, "", "")
            lines = (
                call("+ " if index else "", function, arguments[:-1], indent=12) if arguments else iter([f"+ {part}"])
            )
            yield from (f"    {line}" for line in lines)
    yield ")"


def call(before: str, function: str, arguments: str, indent: int) -> Iterator[str]:
    """Yield a call, on three lines when one would be too long."""
    if indent + len(before) + len(function) + len(arguments) + 2 <= LINE_MAX:
        yield f"{before}{function}({arguments})"
    else:
        yield f"{before}{function}("
        yield f"    {arguments}"
        yield ")"


# --- decoders ---


class Offset:
    """The offset of the next byte: a number while it is known, then a variable plus a number."""

    def __init__(self, known: int) -> None:
        self.variable, self.known = "", known

    def __str__(self) -> str:
        if not self.variable:
            return str(self.known)
        return f"{self.variable} + {self.known}" if self.known else self.variable


def decoder_lines(method: MethodSpec, structs: Structs) -> Iterator[str]:
    """Yield the body of a decoder's `try`. Slices do not fail on short data, so the end is compared once, last."""
    offset = Offset(4)
    for step in plan(method.arguments):
        if isinstance(step, Run):
            yield from read_run(step, offset, structs)
        elif step.kind == "table":
            yield f"{step.name}, {step.name}_end = decode_table(data, {offset})"
            offset.variable, offset.known = f"{step.name}_end", 0
        else:
            yield from read_string(step, offset)
    yield f"if len(data) != {offset}:"
    yield f'    raise DecodeError("wrong length of {method.class_name}.{method.name}")'
    values = ", ".join(decoded_value(argument, method) for argument in method.visible)
    yield from call("return ", method.python_name, values, indent=8)


def read_run(run: Run, offset: Offset, structs: Structs) -> Iterator[str]:
    targets = run_targets(run)
    wanted = [target for target in targets if target != "_"]
    if len(targets) == 1 and run.formats == "B" and wanted:
        yield f"{targets[0]} = data[{offset}]"
    elif wanted:
        # Reserved fields in front are stepped over, not read.
        first = next(index for index, target in enumerate(targets) if target != "_")
        formats = run.formats[first:]
        offset.known += sum(SIZES[character] for character in run.formats[:first])
        if formats == "B":
            yield f"{targets[first]} = data[{offset}]"
        else:
            names = ", ".join(targets[first:]) if len(formats) > 1 else f"({targets[first]},)"
            yield f"{names} = {structs.unpack('>' + formats)}(data, {offset})"
        offset.known += sum(SIZES[character] for character in formats)
        return
    offset.known += run.size


def run_targets(run: Run) -> list[str]:
    targets, groups = [], iter(enumerate(run.bit_groups))
    for _, argument, role in run.items:
        if role == "bits":
            index, group = next(groups)
            targets.append("_" if all(item.reserved for item in group) else bits_name(index))
        elif role == "length":
            assert argument is not None
            targets.append(f"{argument.name}_size")
        else:
            assert argument is not None
            targets.append("_" if argument.reserved else argument.name)
    return targets


def bits_name(index: int) -> str:
    return "bits" if index == 0 else f"bits_{index}"


def read_string(argument: Argument, offset: Offset) -> Iterator[str]:
    end = f"{argument.name}_end"
    start = str(offset)
    yield f"{end} = {start} + {argument.name}_size"
    if not argument.reserved:
        decoded = '.decode("utf-8", "surrogateescape")' if argument.kind == "shortstr" else ""
        start = start if " " not in start else f"{start} "
        yield f"{argument.name} = data[{start}:{' ' if ' ' in start else ''}{end}]{decoded}"
    offset.variable, offset.known = end, 0


def decoded_value(argument: Argument, method: MethodSpec) -> str:
    if argument.kind != "bit":
        return argument.name
    for step in plan(method.arguments):
        if isinstance(step, Run):
            for index, group in enumerate(step.bit_groups):
                for position, item in enumerate(group):
                    if item is argument:
                        return f"{bits_name(index)} & {1 << position} != 0"
    raise AssertionError(argument.name)


# --- the two files ---


def constants_text(constants: list[tuple[str, int]]) -> str:
    frame = [(name, value) for name, value in constants if name.startswith("frame-") and name != "frame-error"]
    codes = sorted((pair for pair in constants if pair not in frame), key=lambda pair: pair[1])
    lines = [f'"""Numbers of the specification. {NOTICE}."""', "", "from __future__ import annotations", ""]
    lines += ["from enum import IntEnum", "from typing import Final", ""]
    lines += [f"{name.upper().replace('-', '_')}: Final = {value}" for name, value in frame]
    lines += ["", "", "class ReplyCode(IntEnum):"]
    lines += ['    """The reason why a channel or connection was closed, or a message returned."""', ""]
    lines += [f"    {name.upper().replace('-', '_')} = {value}" for name, value in codes]
    return "\n".join(lines) + "\n"


def class_lines(method: MethodSpec, structs: Structs) -> Iterator[str]:
    names = [argument.name for argument in method.visible]
    slots = f"({', '.join(repr_name(name) for name in names)}{',' if len(names) == 1 else ''})"
    yield f"class {method.python_name}(Method):"
    yield f"    __slots__ = {slots}"
    yield f"    __match_args__ = {slots}"
    yield f"    CLASS_ID = {method.class_id}"
    yield f"    METHOD_ID = {method.method_id}"
    yield f"    KEY = 0x{method.class_id << 16 | method.method_id:08X}"
    yield f'    NAME = "{method.class_name}.{method.name}"'
    if method.has_content:
        yield "    HAS_CONTENT = True"
    yield ""
    if names:
        yield from init_lines(method)
        yield ""
    yield "    def encode(self) -> bytes:"
    yield from (f"        {line}" for line in encoder_lines(method, structs))


def repr_name(name: str) -> str:
    return f'"{name}"'


def init_lines(method: MethodSpec) -> Iterator[str]:
    parameters = [f"{argument.name}: {PYTHON_TYPES[argument.kind]}" for argument in method.visible]
    one_line = f"    def __init__(self, {', '.join(parameters)}) -> None:"
    if len(one_line) <= LINE_MAX:
        yield one_line
    elif len("        self, " + ", ".join(parameters)) <= LINE_MAX:
        yield "    def __init__("
        yield f"        self, {', '.join(parameters)}"
        yield "    ) -> None:"
    else:
        yield "    def __init__("
        yield "        self,"
        yield from (f"        {parameter}," for parameter in parameters)
        yield "    ) -> None:"
    for argument in method.visible:
        yield f"        self.{argument.name} = {argument.name}"


def function_lines(method: MethodSpec, structs: Structs) -> Iterator[str]:
    body = list(decoder_lines(method, structs))
    yield f"def {method.function_name}(data: bytes) -> {method.python_name}:"
    if not any(word in line for line in body for word in ("data[", "unpack_from", "decode_table")):
        yield from (f"    {line}" for line in body)
        return
    yield "    try:"
    yield from (f"        {line}" for line in body)
    yield "    except (IndexError, struct.error) as error:"
    yield f'        raise DecodeError("cannot decode {method.class_name}.{method.name}") from error'


def methods_text(methods: list[MethodSpec]) -> str:
    structs = Structs()
    classes = ["\n".join(class_lines(method, structs)) for method in methods]
    functions = ["\n".join(function_lines(method, structs)) for method in methods]
    head = [
        f'"""Every method of the protocol, with its encoder and its decoder. {NOTICE}.',
        "",
        "A decoder takes a method frame's whole payload and raises DecodeError unless it is exactly one valid method:",
        "RabbitMQ too refuses both missing and additional bytes.",
        '"""',
        "",
        "# ruff: noqa: RUF023 (slots stand in the order of the arguments)",
        "",
        "from __future__ import annotations",
        "",
        "import struct",
        "from collections.abc import Callable",
        "",
        "from broker.wire.amqp_errors import DecodeError",
        "from broker.wire.field_tables import Table, decode_table, encode_table",
        "from broker.wire.method import Method as Method",
        "",
    ]
    head += [f'{name} = struct.Struct("{formats}")' for formats, name in sorted(structs.names.items())]
    return "\n\n\n".join(["\n".join(head), *classes, *functions, "\n".join(lookup_lines(methods))]) + "\n"


def lookup_lines(methods: list[MethodSpec]) -> Iterator[str]:
    yield "DECODERS: dict[int, Callable[[bytes], Method]] = {"
    yield from (f"    {method.python_name}.KEY: {method.function_name}," for method in methods)
    yield "}"
    yield '"""Decoders by KEY; the payload begins with the four id bytes."""'
    yield ""
    yield "METHOD_NAMES: dict[int, str] = {"
    yield from (f"    {method.python_name}.KEY: {method.python_name}.NAME," for method in methods)
    yield "}"
    yield '"""Names of the specification by KEY."""'
    yield ""
    yield "CLIENT_METHODS: frozenset[type[Method]] = frozenset("
    yield "    {"
    yield from (f"        {method.python_name}," for method in methods if method.client_sends)
    yield "    }"
    yield ")"
    yield '"""The methods that a client may send, which the specification has the server implement."""'
    yield ""
    with_content = ", ".join(method.python_name for method in methods if method.has_content)
    yield f"HAS_CONTENT: frozenset[type[Method]] = frozenset({{{with_content}}})"
    yield '"""Methods that are followed by a content header and body frames."""'


def generate() -> dict[Path, str]:
    """Return the text of both files. Raises OSError or ElementTree.ParseError when the specification cannot be read."""
    roots = [ET.parse(path).getroot() for path in SPEC_FILES]
    return {CONSTANTS_FILE: constants_text(read_constants(roots)), METHODS_FILE: methods_text(read_methods(roots))}


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = [(path, text) for path, text in generate().items() if not path.exists() or path.read_text("utf-8") != text]
    for path, text in stale:
        if arguments:
            print(f"{path.relative_to(ROOT)} is stale: run `make wire`", file=sys.stderr)
        else:
            path.write_text(text, "utf-8")
    return 1 if arguments and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

// The peer on rhea: sends or receives messages in the form of ../interop/values.py.
//
//     node peer.mjs send PORT USER PASSWORD QUEUE < messages
//     node peer.mjs receive PORT USER PASSWORD QUEUE COUNT > messages
//
// Received messages are taken apart with rhea's own reader, which keeps the types that its
// messages lose in JavaScript's one kind of number.

import { readFileSync } from "node:fs";
import rhea from "rhea";

const [mode, port, username, password, queue, count] = process.argv.slice(2);
const { types } = rhea;

// --- values -----------------------------------------------------------------------------------

const bits = (hex) => Buffer.from(hex, "hex");
const text = (word) => Buffer.from(word.slice(1), "hex").toString("utf8");

function eight(word) {
  const buffer = Buffer.alloc(8);
  buffer.writeBigUInt64BE(BigInt.asUintN(64, BigInt(word)));
  return buffer;
}

const READERS = {
  boolean: (word) => types.wrap_boolean(word === "true"),
  ubyte: (word) => types.wrap_ubyte(Number(word)),
  ushort: (word) => types.wrap_ushort(Number(word)),
  uint: (word) => types.wrap_uint(Number(word)),
  ulong: (word) => types.wrap_ulong(eight(word)),
  byte: (word) => types.wrap_byte(Number(word)),
  short: (word) => types.wrap_short(Number(word)),
  int: (word) => types.wrap_int(Number(word)),
  long: (word) => types.wrap_long(eight(word)),
  float: (word) => types.wrap_float(bits(word).readFloatBE(0)),
  double: (word) => types.wrap_double(bits(word).readDoubleBE(0)),
  decimal32: (word) => types.Decimal32(bits(word)),
  decimal64: (word) => types.Decimal64(bits(word)),
  decimal128: (word) => types.Decimal128(bits(word)),
  char: (word) => types.wrap_char(Number(word)),
  timestamp: (word) => types.wrap_timestamp(Number(word)),
  uuid: (word) => types.wrap_uuid(bits(word)),
  binary: (word) => types.wrap_binary(Buffer.from(word.slice(1), "hex")),
  string: (word) => types.wrap_string(text(word)),
  symbol: (word) => types.wrap_symbol(text(word)),
};

const CODES = {
  boolean: 0x56, ubyte: 0x50, ushort: 0x60, uint: 0x70, ulong: 0x80, byte: 0x51, short: 0x61,
  int: 0x71, long: 0x81, float: 0x72, double: 0x82, char: 0x73, timestamp: 0x83, uuid: 0x98,
  binary: 0xb0, string: 0xb1, symbol: 0xb3,
};

// In an array only the plain values stand, behind one constructor for all.
function plain(kind, word) {
  if (kind === "boolean") return word === "true" ? 1 : 0;
  const read = READERS[kind](word);
  return kind === "ulong" || kind === "long" ? eight(word) : read.value;
}

function read(words) {
  const kind = words.shift();
  if (kind === "null") return types.Null();
  const many = () => Array.from({ length: Number(words.shift()) }, () => read(words));
  if (kind === "list") return types.wrap_list(many());
  if (kind === "map") {
    const pairs = [];
    for (let left = Number(words.shift()); left > 0; left--) pairs.push(read(words), read(words));
    return types.Map32(pairs);
  }
  if (kind === "array") {
    const element = words.shift();
    const items = Array.from({ length: Number(words.shift()) }, () => plain(words.shift(), words.shift()));
    return types.wrap_array(items, CODES[element]);
  }
  if (kind === "described") {
    const descriptor = read(words);
    return types.described(descriptor, read(words));
  }
  return READERS[kind](words.shift());
}

const NAMES = {
  Null: "null", Boolean: "boolean", True: "boolean", False: "boolean", Ubyte: "ubyte", Ushort: "ushort",
  Uint: "uint", SmallUint: "uint", Uint0: "uint", Ulong: "ulong", SmallUlong: "ulong", Ulong0: "ulong",
  Byte: "byte", Short: "short", Int: "int", SmallInt: "int", Long: "long", SmallLong: "long",
  Float: "float", Double: "double", Decimal32: "decimal32", Decimal64: "decimal64", Decimal128: "decimal128",
  CharUTF32: "char", Timestamp: "timestamp", Uuid: "uuid", Vbin8: "binary", Vbin32: "binary",
  Str8: "string", Str32: "string", Sym8: "symbol", Sym32: "symbol", List0: "list", List8: "list",
  List32: "list", Map8: "map", Map32: "map", Array8: "array", Array32: "array",
};

const hex = (buffer) => Buffer.from(buffer).toString("hex");

function ieee(value, bytes) {
  const buffer = Buffer.alloc(bytes);
  return bytes === 4 ? (buffer.writeFloatBE(value), hex(buffer)) : (buffer.writeDoubleBE(value), hex(buffer));
}

function whole(value, signed) {
  if (!Buffer.isBuffer(value)) return String(value);
  return String(signed ? value.readBigInt64BE(0) : value.readBigUInt64BE(0));
}

const WRITERS = {
  null: () => "",
  boolean: (value) => ` ${Boolean(value)}`,
  ulong: (value) => ` ${whole(value, false)}`,
  long: (value) => ` ${whole(value, true)}`,
  float: (value) => ` ${ieee(value, 4)}`,
  double: (value) => ` ${ieee(value, 8)}`,
  decimal32: (value) => ` ${hex(value)}`,
  decimal64: (value) => ` ${hex(value)}`,
  decimal128: (value) => ` ${hex(value)}`,
  timestamp: (value) => ` ${Number(value)}`,
  uuid: (value) => ` ${hex(value)}`,
  binary: (value) => ` x${hex(value)}`,
  string: (value) => ` x${hex(Buffer.from(value, "utf8"))}`,
  symbol: (value) => ` x${hex(Buffer.from(value, "utf8"))}`,
};

const scalar = (kind, value) => kind + (WRITERS[kind] ?? ((plainly) => ` ${plainly}`))(value);

function write(typed) {
  if (typed === null || typed === undefined) return "null";
  if (typed.descriptor) return `described ${write(typed.descriptor)} ${bare(typed)}`;
  return bare(typed);
}

function bare(typed) {
  const kind = NAMES[typed.type.name];
  const items = typed.value;
  if (kind === "list") return ["list", items.length, ...items.map(write)].join(" ");
  if (kind === "map") return ["map", items.length / 2, ...items.map(write)].join(" ");
  if (kind === "array") {
    const element = NAMES[types.by_code[typed.array_constructor.typecode].name];
    return ["array", element, items.length, ...items.map((item) => scalar(element, item.value))].join(" ");
  }
  return scalar(kind, typed.value);
}

// --- messages ---------------------------------------------------------------------------------

const HEADER = ["durable", "priority", "ttl", "first-acquirer"];
const PROPERTIES = [
  "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type",
  "content-encoding", "absolute-expiry-time", "creation-time", "group-id", "group-sequence",
  "reply-to-group-id",
];

function composite(code, names, given) {
  if (!names.some((name) => name in given)) return [];
  const fields = names.map((name) => given[name] ?? types.Null());
  return [types.described(types.wrap_ulong(code), types.wrap_list(fields))];
}

function encode(lines) {
  const given = {};
  const properties = [];
  for (const line of lines) {
    const words = line.split(" ");
    const name = words.shift();
    if (name === "property") properties.push(types.wrap_string(text(words.shift())), read(words));
    else given[name] = read(words);
  }
  const writer = new types.Writer();
  const sections = [...composite(0x70, HEADER, given), ...composite(0x73, PROPERTIES, given)];
  if (properties.length) sections.push(types.described(types.wrap_ulong(0x74), types.Map32(properties)));
  sections.push(types.described(types.wrap_ulong(0x77), given.body));
  sections.forEach((section) => writer.write(section));
  return writer.toBuffer();
}

const isDefault = (name, typed) =>
  !typed || typed.type.name === "Null" || name === "absolute-expiry-time" ||
  (name === "priority" ? typed.value === 4 : !typed.value);

function decode(buffer) {
  const reader = new types.Reader(buffer);
  const lines = [];
  while (reader.remaining()) {
    const section = reader.read();
    const code = Number(section.descriptor.value);
    const names = { 0x70: HEADER, 0x73: PROPERTIES }[code] ?? [];
    names.forEach((name, place) => {
      const typed = section.value[place];
      if (!isDefault(name, typed)) lines.push(`${name} ${write(typed)}`);
    });
    if (code === 0x74) {
      for (let at = 0; at < section.value.length; at += 2) {
        lines.push(`property x${hex(Buffer.from(section.value[at].value, "utf8"))} ${write(section.value[at + 1])}`);
      }
    }
    if (code === 0x75) lines.push(`body ${scalar("binary", section.value)}`);
    if (code === 0x77) lines.push(`body ${bare(section)}`);
  }
  // Proton writes no section for a body that is null.
  return lines.some((line) => line.startsWith("body ")) ? lines : [...lines, "body null"];
}

// --- the connection -----------------------------------------------------------------------------

const fail = (why) => {
  process.stderr.write(`${why}\n`);
  process.exit(1);
};

rhea.message.decode = (buffer) => buffer;
const container = rhea.create_container();
const connection = container.connect({ host: "127.0.0.1", port: Number(port), username, password, reconnect: false });
for (const event of ["connection_error", "protocol_error", "error", "sender_error", "receiver_error", "rejected"]) {
  container.on(event, (context) => fail(`${event}: ${context.connection?.error ?? context.error ?? ""}`));
}

if (mode === "send") {
  const waiting = readFileSync(0, "utf8").split("end\n").slice(0, -1).map((part) => encode(part.trimEnd().split("\n")));
  let left = waiting.length;
  container.on("sendable", ({ sender }) => {
    while (sender.sendable() && waiting.length) sender.send(waiting.shift(), undefined, 0);
  });
  container.on("accepted", () => {
    left -= 1;
    if (!left) connection.close();
  });
  connection.open_sender(queue);
} else {
  let left = Number(count);
  container.on("message", ({ message }) => {
    process.stdout.write([...decode(message), "end", ""].join("\n"));
    left -= 1;
    if (!left) setImmediate(() => connection.close());
  });
  connection.open_receiver(queue);
}

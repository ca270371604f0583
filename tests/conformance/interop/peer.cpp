// The peer on Qpid Proton for C++: sends or receives messages in the form of values.py.
//
//     peer send PORT USER PASSWORD QUEUE < messages
//     peer receive PORT USER PASSWORD QUEUE COUNT > messages
//
// Compiled by the tests against the distribution's development package.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iomanip>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <proton/codec/decoder.hpp>
#include <proton/codec/encoder.hpp>
#include <proton/connection.hpp>
#include <proton/connection_options.hpp>
#include <proton/container.hpp>
#include <proton/delivery.hpp>
#include <proton/message.hpp>
#include <proton/message_id.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/receiver_options.hpp>
#include <proton/sender.hpp>
#include <proton/tracker.hpp>
#include <proton/transport.hpp>
#include <proton/types.hpp>

using proton::codec::decoder;
using proton::codec::encoder;
using proton::codec::finish;
using proton::codec::start;

// --- words ----------------------------------------------------------------------------------------

std::string unhex(const std::string& word) {
    std::string bytes;
    for (size_t at = 0; at + 1 < word.size(); at += 2)
        bytes.push_back(char(std::stoi(word.substr(at, 2), nullptr, 16)));
    return bytes;
}

template <class Bytes> std::string hex(const Bytes& bytes) {
    static const char digits[] = "0123456789abcdef";
    std::string word;
    for (auto byte : bytes) {
        word.push_back(digits[(uint8_t(byte) >> 4) & 15]);
        word.push_back(digits[uint8_t(byte) & 15]);
    }
    return word;
}

// A fixed-width value of Proton from its bytes in the order of the network, and back.
template <class Value> Value from_bits(const std::string& word) {
    Value value;
    std::string bytes = unhex(word);
    std::copy(bytes.begin(), bytes.end(), value.begin());
    return value;
}

// Proton keeps the two shorter decimals in the order of the machine, which is little-endian here.
template <class Value> Value turned(Value value) {
    std::reverse(value.begin(), value.end());
    return value;
}

template <class Number, class Bits> Number from_ieee(const std::string& word) {
    Bits bits = Bits(std::stoull(word, nullptr, 16));
    Number value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

template <class Number, class Bits> std::string ieee(Number value) {
    Bits bits;
    std::memcpy(&bits, &value, sizeof value);
    std::ostringstream out;
    out << std::hex << std::setfill('0') << std::setw(2 * sizeof value) << bits;
    return out.str();
}

// --- values ---------------------------------------------------------------------------------------

const std::vector<std::pair<std::string, proton::type_id>> TYPES = {
    {"null", proton::NULL_TYPE},       {"boolean", proton::BOOLEAN},       {"ubyte", proton::UBYTE},
    {"ushort", proton::USHORT},        {"uint", proton::UINT},             {"ulong", proton::ULONG},
    {"byte", proton::BYTE},            {"short", proton::SHORT},           {"int", proton::INT},
    {"long", proton::LONG},            {"float", proton::FLOAT},           {"double", proton::DOUBLE},
    {"decimal32", proton::DECIMAL32},  {"decimal64", proton::DECIMAL64},   {"decimal128", proton::DECIMAL128},
    {"char", proton::CHAR},            {"timestamp", proton::TIMESTAMP},   {"uuid", proton::UUID},
    {"binary", proton::BINARY},        {"string", proton::STRING},         {"symbol", proton::SYMBOL},
    {"list", proton::LIST},            {"map", proton::MAP},               {"array", proton::ARRAY},
};

proton::type_id type_named(const std::string& name) {
    for (auto& known : TYPES)
        if (known.first == name) return known.second;
    throw std::runtime_error("unknown type " + name);
}

std::string name_of(proton::type_id type) {
    for (auto& known : TYPES)
        if (known.second == type) return known.first;
    throw std::runtime_error("unknown type");
}

void read_scalar(proton::type_id type, const std::string& word, encoder& out) {
    switch (type) {
        case proton::BOOLEAN: out << (word == "true"); break;
        case proton::UBYTE: out << uint8_t(std::stoul(word)); break;
        case proton::USHORT: out << uint16_t(std::stoul(word)); break;
        case proton::UINT: out << uint32_t(std::stoul(word)); break;
        case proton::ULONG: out << uint64_t(std::stoull(word)); break;
        case proton::BYTE: out << int8_t(std::stol(word)); break;
        case proton::SHORT: out << int16_t(std::stol(word)); break;
        case proton::INT: out << int32_t(std::stol(word)); break;
        case proton::LONG: out << int64_t(std::stoll(word)); break;
        case proton::FLOAT: out << from_ieee<float, uint32_t>(word); break;
        case proton::DOUBLE: out << from_ieee<double, uint64_t>(word); break;
        case proton::DECIMAL32: out << turned(from_bits<proton::decimal32>(word)); break;
        case proton::DECIMAL64: out << turned(from_bits<proton::decimal64>(word)); break;
        case proton::DECIMAL128: out << from_bits<proton::decimal128>(word); break;
        case proton::CHAR: out << wchar_t(std::stoul(word)); break;
        case proton::TIMESTAMP: out << proton::timestamp(std::stoll(word)); break;
        case proton::UUID: out << from_bits<proton::uuid>(word); break;
        case proton::BINARY: out << proton::binary(unhex(word.substr(1))); break;
        case proton::STRING: out << unhex(word.substr(1)); break;
        case proton::SYMBOL: out << proton::symbol(unhex(word.substr(1))); break;
        default: throw std::runtime_error("not a scalar");
    }
}

void read(std::istream& words, encoder& out) {
    std::string kind, word;
    words >> kind;
    if (kind == "null") {
        out << proton::null();
    } else if (kind == "described") {
        out << start::described();
        read(words, out);
        read(words, out);
        out << finish();
    } else if (kind == "list" || kind == "map" || kind == "array") {
        if (kind == "array") words >> word;
        size_t count;
        words >> count;
        if (kind == "array")
            out << start::array(type_named(word));
        else
            out << (kind == "list" ? start::list() : start::map());
        for (size_t left = kind == "map" ? 2 * count : count; left; left--) read(words, out);
        out << finish();
    } else {
        words >> word;
        read_scalar(type_named(kind), word, out);
    }
}

proton::value read_value(std::istream& words) {
    proton::value value;
    encoder out(value);
    read(words, out);
    return value;
}

template <class Value> Value next(decoder& in) {
    Value value;
    in >> value;
    return value;
}

template <class Value> std::string next_hex(decoder& in) {
    return hex(next<Value>(in));
}

std::string scalar(proton::type_id type, decoder& in) {
    switch (type) {
        case proton::BOOLEAN: return next<bool>(in) ? "true" : "false";
        case proton::UBYTE: return std::to_string(next<uint8_t>(in));
        case proton::USHORT: return std::to_string(next<uint16_t>(in));
        case proton::UINT: return std::to_string(next<uint32_t>(in));
        case proton::ULONG: return std::to_string(next<uint64_t>(in));
        case proton::BYTE: return std::to_string(next<int8_t>(in));
        case proton::SHORT: return std::to_string(next<int16_t>(in));
        case proton::INT: return std::to_string(next<int32_t>(in));
        case proton::LONG: return std::to_string(next<int64_t>(in));
        case proton::FLOAT: return ieee<float, uint32_t>(next<float>(in));
        case proton::DOUBLE: return ieee<double, uint64_t>(next<double>(in));
        case proton::DECIMAL32: return hex(turned(next<proton::decimal32>(in)));
        case proton::DECIMAL64: return hex(turned(next<proton::decimal64>(in)));
        case proton::DECIMAL128: return next_hex<proton::decimal128>(in);
        case proton::CHAR: return std::to_string(uint32_t(next<wchar_t>(in)));
        case proton::TIMESTAMP: return std::to_string(next<proton::timestamp>(in).milliseconds());
        case proton::UUID: return next_hex<proton::uuid>(in);
        case proton::BINARY: return "x" + next_hex<proton::binary>(in);
        case proton::STRING: return "x" + next_hex<std::string>(in);
        case proton::SYMBOL: return "x" + next_hex<proton::symbol>(in);
        default: throw std::runtime_error("not a scalar");
    }
}

void write(decoder& in, std::ostream& out) {
    proton::type_id type = in.next_type();
    if (type == proton::NULL_TYPE) {
        proton::value nothing;
        in >> nothing;
        out << "null";
    } else if (type == proton::DESCRIBED) {
        start opened;
        in >> opened;
        out << "described ";
        write(in, out);
        out << " ";
        write(in, out);
        in >> finish();
    } else if (type == proton::LIST || type == proton::MAP || type == proton::ARRAY) {
        start opened;
        in >> opened;
        out << name_of(type);
        if (type == proton::ARRAY) out << " " << name_of(opened.element);
        out << " " << (type == proton::MAP ? opened.size / 2 : opened.size);
        for (size_t left = opened.size; left; left--) {
            out << " ";
            write(in, out);
        }
        in >> finish();
    } else {
        out << name_of(type) << " " << scalar(type, in);
    }
}

std::string written(const proton::value& value) {
    if (value.empty()) return "null";
    std::ostringstream out;
    decoder in(value);
    write(in, out);
    return out.str();
}

// --- messages -------------------------------------------------------------------------------------

void set_field(proton::message& message, const std::string& name, const proton::value& value) {
    auto text = [&] { return proton::coerce<std::string>(value); };
    if (name == "durable") message.durable(proton::get<bool>(value));
    else if (name == "priority") message.priority(proton::get<uint8_t>(value));
    else if (name == "ttl") message.ttl(proton::duration(proton::get<uint32_t>(value)));
    else if (name == "first-acquirer") message.first_acquirer(proton::get<bool>(value));
    else if (name == "message-id") message.id(proton::get<proton::message_id>(value));
    else if (name == "user-id") message.user(std::string(proton::get<proton::binary>(value)));
    else if (name == "to") message.to(text());
    else if (name == "subject") message.subject(text());
    else if (name == "reply-to") message.reply_to(text());
    else if (name == "correlation-id") message.correlation_id(proton::get<proton::message_id>(value));
    else if (name == "content-type") message.content_type(text());
    else if (name == "content-encoding") message.content_encoding(text());
    else if (name == "creation-time") message.creation_time(proton::get<proton::timestamp>(value));
    else if (name == "group-id") message.group_id(text());
    else if (name == "group-sequence") message.group_sequence(int32_t(proton::get<uint32_t>(value)));
    else if (name == "reply-to-group-id") message.reply_to_group_id(text());
    else if (name == "body") message.body() = value;
    else throw std::runtime_error("unknown field " + name);
}

std::deque<proton::message> read_messages(std::istream& in) {
    std::deque<proton::message> found;
    proton::message message;
    std::string line;
    while (std::getline(in, line)) {
        if (line == "end") {
            found.push_back(message);
            message = proton::message();
            continue;
        }
        std::istringstream words(line);
        std::string name, key;
        words >> name;
        if (name == "property") {
            words >> key;
            proton::value value = read_value(words);
            message.properties().put(unhex(key.substr(1)), proton::get<proton::scalar>(value));
        } else {
            set_field(message, name, read_value(words));
        }
    }
    return found;
}

template <class Typed> void show(const char* name, const Typed& value) {
    std::cout << name << " " << written(proton::value(value)) << "\n";
}

void show_text(const char* name, const std::string& value) {
    if (!value.empty()) show(name, value);
}

void show_message(const proton::message& message) {
    if (message.durable()) show("durable", true);
    if (message.priority() != 4) show("priority", message.priority());
    if (message.ttl().milliseconds()) show("ttl", uint32_t(message.ttl().milliseconds()));
    if (message.first_acquirer()) show("first-acquirer", true);
    if (!message.id().empty()) show("message-id", message.id());
    if (!message.user().empty()) show("user-id", proton::binary(message.user()));
    show_text("to", message.to());
    show_text("subject", message.subject());
    show_text("reply-to", message.reply_to());
    if (!message.correlation_id().empty()) show("correlation-id", message.correlation_id());
    if (!message.content_type().empty()) show("content-type", proton::symbol(message.content_type()));
    if (!message.content_encoding().empty()) show("content-encoding", proton::symbol(message.content_encoding()));
    if (message.creation_time().milliseconds()) show("creation-time", message.creation_time());
    show_text("group-id", message.group_id());
    if (message.group_sequence()) show("group-sequence", uint32_t(message.group_sequence()));
    show_text("reply-to-group-id", message.reply_to_group_id());
    std::map<std::string, proton::scalar> properties;
    proton::get(message.properties(), properties);
    for (auto& property : properties)
        std::cout << "property x" << hex(property.first) << " " << written(proton::value(property.second)) << "\n";
    std::cout << "body " << written(message.body()) << "\nend\n";
}

// --- the connection ---------------------------------------------------------------------------------

class Peer : public proton::messaging_handler {
  public:
    Peer(char** arguments, std::deque<proton::message> waiting, size_t count)
        : url_(std::string("amqp://127.0.0.1:") + arguments[2]), user_(arguments[3]), password_(arguments[4]),
          queue_(arguments[5]), waiting_(waiting), left_(count) {}

    void on_container_start(proton::container& container) override {
        proton::connection_options options;
        options.user(user_).password(password_).sasl_allowed_mechs("PLAIN").sasl_allow_insecure_mechs(true);
        proton::connection connection = container.connect(url_, options);
        if (waiting_.empty())
            connection.open_receiver(queue_);
        else
            connection.open_sender(queue_);
    }

    void on_sendable(proton::sender& sender) override {
        while (sender.credit() && !waiting_.empty()) {
            sender.send(waiting_.front());
            waiting_.pop_front();
        }
    }

    void on_tracker_accept(proton::tracker& tracker) override {
        if (!--left_) tracker.connection().close();
    }

    void on_tracker_reject(proton::tracker&) override { fail("rejected"); }

    void on_message(proton::delivery& delivery, proton::message& message) override {
        show_message(message);
        if (!--left_) delivery.connection().close();
    }

    void on_error(const proton::error_condition& error) override { fail(error.what()); }

  private:
    void fail(const std::string& why) {
        std::cerr << why << std::endl;
        std::exit(1);
    }

    std::string url_, user_, password_, queue_;
    std::deque<proton::message> waiting_;
    size_t left_;
};

int main(int count, char** arguments) {
    std::ios::sync_with_stdio(false);
    std::deque<proton::message> waiting;
    if (std::string(arguments[1]) == "send") waiting = read_messages(std::cin);
    size_t wanted = count > 6 ? std::stoul(arguments[6]) : waiting.size();
    Peer peer(arguments, waiting, wanted);
    proton::container(peer).run();
    return 0;
}

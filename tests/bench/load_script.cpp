#include "bench/load_script.h"

#include <stdexcept>
#include <utility>

#include "wire/store_message.h"

namespace ddp::bench {
namespace {

using wire::StoreOp;
using wire::StoreRequest;

std::string store_request(Protocol protocol, StoreOp op, const std::string& key, const std::string& value = "") {
  StoreRequest request{.op = op, .keys = {}, .values = {}, .delta = 1};
  if (!key.empty()) request.keys = {key};
  if (op == StoreOp::set) request.values = {value};
  return encode(request, protocol == Protocol::legacy ? wire::StoreDialect::legacy : wire::StoreDialect::current);
}

std::string resp(const std::vector<std::string>& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) out += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return out;
}

std::string bulk(const std::string& word) {
  return "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
}

std::string bytes(const std::string& text) {
  std::string out;
  wire::put_bytes(out, text);
  return out;
}

std::string byte(char value) {
  return std::string(1, value);
}

std::vector<Step> resp_operation(const std::string& name, const std::string& key, const std::string& value) {
  const Step set{resp({"SET", key, value}), "+OK\r\n"};
  const Step get{resp({"GET", key}), bulk(value)};
  if (name == "set") return {set};
  if (name == "get_raw" || name == "get_two_trips" || name == "get_one_trip") return {get};
  if (name == "set_get" || name == "set_get_one_trip") return {set, get};
  if (name == "add") return {Step{resp({"INCR", key + "/count"}), "", 0}};
  throw std::invalid_argument("no operation " + name);
}

}  // namespace

Protocol protocol_of(const std::string& name) {
  for (const auto& [known, protocol] : {std::pair{"current", Protocol::current}, std::pair{"legacy", Protocol::legacy},
                                        std::pair{"resp", Protocol::resp}}) {
    if (name == known) return protocol;
  }
  throw std::invalid_argument("no protocol " + name + " (current, legacy, resp)");
}

std::vector<Step> handshake(Protocol protocol) {
  if (protocol != Protocol::current) return {};
  std::string echo;
  wire::put_u32(echo, 7);
  return {Step{encode(StoreRequest{.op = StoreOp::validate, .keys = {}, .values = {}, .number = wire::kStoreMagic}) +
                   encode(StoreRequest{.op = StoreOp::ping, .keys = {}, .values = {}, .number = 7}),
               echo}};
}

std::vector<Step> operation(Protocol protocol, const std::string& name, const std::string& key,
                            const std::string& value) {
  if (protocol == Protocol::resp) return resp_operation(name, key, value);
  const auto request = [&](StoreOp op) { return store_request(protocol, op, key, value); };
  const StoreOp get_many = protocol == Protocol::legacy ? StoreOp::get : StoreOp::multi_get;
  const Step get{request(StoreOp::get), bytes(value)};
  if (name == "set") return {Step{request(StoreOp::set) + request(StoreOp::check), byte(wire::kStoreReady)}};
  if (name == "get_raw") return {get};
  if (name == "get_two_trips") return {Step{request(StoreOp::wait), byte(wire::kStoreStopWaiting)}, get};
  const std::string check_and_get = request(StoreOp::check) + request(get_many);
  const std::string ready_and_value = byte(wire::kStoreReady) + bytes(value);
  if (name == "get_one_trip") return {Step{check_and_get, ready_and_value}};
  if (name == "set_get") {
    return {Step{request(StoreOp::set) + request(StoreOp::wait), byte(wire::kStoreStopWaiting)}, get};
  }
  if (name == "set_get_one_trip") return {Step{request(StoreOp::set) + check_and_get, ready_and_value}};
  if (name == "add") return {Step{store_request(protocol, StoreOp::add, key + "/count"), "", sizeof(std::int64_t)}};
  throw std::invalid_argument("no operation " + name);
}

std::vector<Step> preparation(Protocol protocol, const std::string& key, const std::string& value) {
  return operation(protocol, "set", key, value);
}

WakeScript wake_script(Protocol protocol, const std::string& key) {
  if (protocol == Protocol::resp) {
    return {.wait = {resp({"BLPOP", key, "0"}), "*2\r\n" + bulk(key) + bulk("x")},
            .check = {resp({"EXISTS", key}), ":0\r\n"},
            .wake = {resp({"RPUSH", key, "x"}), ":1\r\n"},
            .cleanup = {}};
  }
  std::string one;
  wire::put_i64(one, 1);
  return {.wait = {store_request(protocol, StoreOp::wait, key), byte(wire::kStoreStopWaiting)},
          .check = {store_request(protocol, StoreOp::check, key), byte(wire::kStoreNotReady)},
          .wake = {store_request(protocol, StoreOp::set, key, "x")},
          .cleanup = {store_request(protocol, StoreOp::delete_key, key), one}};
}

}  // namespace ddp::bench

// Makes store requests with one call each.
#pragma once

#include <string>
#include <vector>

#include "wire/store_message.h"

namespace ddp::test {

using wire::StoreOp;
using wire::StoreRequest;

inline StoreRequest request(StoreOp op, std::vector<std::string> keys = {}, std::vector<std::string> values = {},
                            std::int64_t delta = 0, std::uint32_t number = 0) {
  return {op, std::move(keys), std::move(values), delta, number};
}

inline StoreRequest validate(std::uint32_t magic = wire::kStoreMagic) {
  return request(StoreOp::validate, {}, {}, 0, magic);
}
inline StoreRequest ping(std::uint32_t nonce) {
  return request(StoreOp::ping, {}, {}, 0, nonce);
}
inline StoreRequest set(std::string key, std::string value) {
  return request(StoreOp::set, {std::move(key)}, {std::move(value)});
}
inline StoreRequest compare_set(std::string key, std::string expected, std::string desired) {
  return request(StoreOp::compare_set, {std::move(key)}, {std::move(expected), std::move(desired)});
}
inline StoreRequest get(std::string key) {
  return request(StoreOp::get, {std::move(key)});
}
inline StoreRequest add(std::string key, std::int64_t delta) {
  return request(StoreOp::add, {std::move(key)}, {}, delta);
}
inline StoreRequest check(std::vector<std::string> keys) {
  return request(StoreOp::check, std::move(keys));
}
inline StoreRequest wait(std::vector<std::string> keys) {
  return request(StoreOp::wait, std::move(keys));
}
inline StoreRequest cancel_wait() {
  return request(StoreOp::cancel_wait);
}
inline StoreRequest key_count() {
  return request(StoreOp::key_count);
}
inline StoreRequest delete_key(std::string key) {
  return request(StoreOp::delete_key, {std::move(key)});
}
inline StoreRequest append(std::string key, std::string value) {
  return request(StoreOp::append, {std::move(key)}, {std::move(value)});
}
inline StoreRequest multi_get(std::vector<std::string> keys) {
  return request(StoreOp::multi_get, std::move(keys));
}
inline StoreRequest multi_set(std::vector<std::string> keys, std::vector<std::string> values) {
  return request(StoreOp::multi_set, std::move(keys), std::move(values));
}

// Returns the bytes of a reply.
inline std::string byte_reply(std::uint8_t value) {
  return {static_cast<char>(value)};
}
inline std::string number_reply(std::int64_t value) {
  std::string out;
  wire::put_i64(out, value);
  return out;
}
inline std::string text_reply(std::string_view value) {
  std::string out;
  wire::put_bytes(out, value);
  return out;
}
inline StoreRequest watch_key(std::string key) {
  return request(StoreOp::watch_key, {std::move(key)});
}
inline StoreRequest queue_push(std::string key, std::string value) {
  return request(StoreOp::queue_push, {std::move(key)}, {std::move(value)});
}
inline StoreRequest queue_pop(std::string key) {
  return request(StoreOp::queue_pop, {std::move(key)});
}
inline StoreRequest queue_len(std::string key) {
  return request(StoreOp::queue_len, {std::move(key)});
}
inline StoreRequest list_keys() {
  return request(StoreOp::list_keys);
}
inline StoreRequest barrier(std::string key, std::int64_t world_size) {
  return request(StoreOp::barrier, {std::move(key)}, {}, world_size);
}
inline StoreRequest hello(std::int64_t rank, std::uint32_t world_size, std::string name) {
  return request(StoreOp::hello, {}, {std::move(name)}, rank, world_size);
}
inline StoreRequest explain(std::vector<std::string> keys) {
  return request(StoreOp::explain, std::move(keys));
}
inline StoreRequest inspect() {
  return request(StoreOp::inspect);
}

}  // namespace ddp::test

// This is the table of the store's requests: their numbers in both dialects and their fields. Only the files beside
// this one use it.
#pragma once

#include <array>
#include <string_view>

#include "wire/store_message.h"

namespace ddp::wire {

// `fields` lists what follows the opcode, one letter per field:
//   k key   v value   i i64   n u32   K list of keys (u64 count, keys)   M pairs (i64 count, then key, value, …)
struct StoreForm {
  StoreOp op;
  std::string_view name;
  int legacy_opcode;  // -1 if the dialect lacks it
  int current_opcode;
  std::string_view fields;

  constexpr int opcode(StoreDialect dialect) const {
    return dialect == StoreDialect::legacy ? legacy_opcode : current_opcode;
  }
};

inline constexpr std::array kStoreForms = {
    StoreForm{StoreOp::validate, "VALIDATE", -1, 0, "n"},
    StoreForm{StoreOp::set, "SET", 0, 1, "kv"},
    StoreForm{StoreOp::compare_set, "COMPARE_SET", 1, 2, "kvv"},
    StoreForm{StoreOp::get, "GET", 2, 3, "k"},
    StoreForm{StoreOp::add, "ADD", 3, 4, "ki"},
    StoreForm{StoreOp::check, "CHECK", 4, 5, "K"},
    StoreForm{StoreOp::wait, "WAIT", 5, 6, "K"},
    StoreForm{StoreOp::key_count, "GETNUMKEYS", 6, 7, ""},
    StoreForm{StoreOp::watch_key, "WATCH_KEY", 7, -1, "k"},
    StoreForm{StoreOp::delete_key, "DELETE_KEY", 8, 8, "k"},
    StoreForm{StoreOp::append, "APPEND", -1, 9, "kv"},
    StoreForm{StoreOp::multi_get, "MULTI_GET", -1, 10, "K"},
    StoreForm{StoreOp::multi_set, "MULTI_SET", -1, 11, "M"},
    StoreForm{StoreOp::cancel_wait, "CANCEL_WAIT", -1, 12, ""},
    StoreForm{StoreOp::ping, "PING", -1, 13, "n"},
    StoreForm{StoreOp::queue_push, "QUEUE_PUSH", -1, 14, "kv"},
    StoreForm{StoreOp::queue_pop, "QUEUE_POP", -1, 15, "k"},
    StoreForm{StoreOp::queue_len, "QUEUE_LEN", -1, 16, "k"},
    StoreForm{StoreOp::list_keys, "LIST_KEYS", -1, 17, ""},
    StoreForm{StoreOp::barrier, "BARRIER", -1, 18, "ki"},
    StoreForm{StoreOp::hello, "HELLO", -1, 0xD0, "inv"},
    StoreForm{StoreOp::explain, "EXPLAIN", -1, 0xD1, "K"},
    StoreForm{StoreOp::inspect, "INSPECT", -1, 0xD2, ""},
    StoreForm{StoreOp::auth_hello, "AUTH_HELLO", -1, 0xD3, "v"},
    StoreForm{StoreOp::auth_proof, "AUTH_PROOF", -1, 0xD4, "v"},
    StoreForm{StoreOp::control, "CONTROL", -1, 0xD5, "v"},
};

}  // namespace ddp::wire

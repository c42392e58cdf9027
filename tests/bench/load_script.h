// Defines what a client of the load generator sends and which replies it expects, in each protocol.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddp::bench {

enum class Protocol { current, legacy, resp };

// Describes one round trip.
struct Step {
  std::string request;
  std::string reply;            // exactly these bytes are expected; if empty, `reply_bytes` decides
  std::size_t reply_bytes = 0;  // number of bytes expected; if 0, the reply ends with the first LF
};

// Parses "current", "legacy" or "resp". Throws std::invalid_argument for any other name.
Protocol protocol_of(const std::string& name);

// Returns what a client sends before its first request: VALIDATE and PING, or nothing.
std::vector<Step> handshake(Protocol protocol);

// Returns the round trips of one operation, to be repeated forever. Throws std::invalid_argument if it is unknown.
//   set              SET, and in the same segment a CHECK, because SET has no reply (RESP: SET, which has one)
//   get_raw          GET
//   get_two_trips    WAIT, then GET: what PyTorch's client does (RESP: GET)
//   get_one_trip     CHECK and MULTI_GET in one segment (legacy: CHECK and GET; RESP: GET)
//   set_get          SET and WAIT in one segment, then GET (RESP: SET, then GET)
//   set_get_one_trip SET, CHECK and MULTI_GET in one segment (legacy: GET; RESP: as set_get)
//   add              ADD (RESP: INCR)
std::vector<Step> operation(Protocol protocol, const std::string& name, const std::string& key,
                            const std::string& value);

// Returns the requests that are made once before the operation, so that the key exists.
std::vector<Step> preparation(Protocol protocol, const std::string& key, const std::string& value);

// One client waits for a key, and another one sets it. The steps are in the order of their execution. The server
// answers `look` only after it has seen `wait`.
struct WakeScript {
  Step wait;     // sent by the waiter; its reply comes after `wake`
  Step check;    // sent by the other client
  Step wake;     // sent by the other client; has no reply if `reply` and `reply_bytes` are empty but `cleanup` is not
  Step cleanup;  // sent by the other client to restore the start state; not sent if the request is empty
};
WakeScript wake_script(Protocol protocol, const std::string& key);

}  // namespace ddp::bench

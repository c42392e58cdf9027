// What a client of the load generator sends and what has to come back, in each protocol.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddp::bench {

enum class Protocol { current, legacy, resp };

// One round trip.
struct Step {
  std::string request;
  std::string reply;            // these bytes exactly; if empty:
  std::size_t reply_bytes = 0;  // so many; if 0: up to and with the first LF
};

// "current", "legacy", "resp"; throws std::invalid_argument.
Protocol protocol_of(const std::string& name);

// What a client sends before its first request: VALIDATE and PING, or nothing.
std::vector<Step> handshake(Protocol protocol);

// The round trips of one operation, to be repeated for ever; throws std::invalid_argument for an unknown one.
//   set              SET, and in the same segment a CHECK, because SET has no reply (RESP: SET, which has one)
//   get_raw          GET
//   get_two_trips    WAIT, then GET: what PyTorch's client does (RESP: GET)
//   get_one_trip     CHECK and MULTI_GET in one segment (legacy: CHECK and GET; RESP: GET)
//   set_get          SET and WAIT in one segment, then GET (RESP: SET, then GET)
//   set_get_one_trip SET, CHECK and MULTI_GET in one segment (legacy: GET; RESP: as set_get)
//   add              ADD (RESP: INCR)
std::vector<Step> operation(Protocol protocol, const std::string& name, const std::string& key,
                            const std::string& value);

// Requests made once before that: the key is there.
std::vector<Step> preparation(Protocol protocol, const std::string& key, const std::string& value);

// A waiter and one who wakes it; in order. `look` is answered once the server has seen `wait`.
struct WakeScript {
  Step wait;     // of the waiter; its reply comes after …
  Step look;     // of the other
  Step wake;     // … this, which has no reply if `reply`, `reply_bytes` are empty and `cleanup` is not
  Step cleanup;  // of the other, that it can begin anew; empty request: nothing to do
};
WakeScript wake_script(Protocol protocol, const std::string& key);

}  // namespace ddp::bench

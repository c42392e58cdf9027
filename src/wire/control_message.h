// What the launchers of one job say to each other: values, and their bytes. docs/development/protocol.md, section 7. No
// I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace ddp::wire {

inline constexpr int kControlVersion = 7;
inline constexpr int kAnyNodeRank = -1;
inline constexpr int kNoPeer = -1;

// How much is known of a cause: the one of which more is known is told.
enum class Knowledge : std::uint8_t {
  secondary,  // a rank lost a peer, which may say why
  disputed,   // ranks called different things, and others may know better whose are wrong; or a signal that ended a
              // rank may be one to all
  certain,
};

// Why an attempt ends, or the job; exit code 0: all is done.
struct Cause {
  std::string text = {};  // "rank 5: exit code 3"; the node is not in it
  std::string node = {};  // where; may be empty
  int exit_code = 0;
  int signal = 0;  // the job is ended by it; 0: by none
  Knowledge knowledge = Knowledge::certain;
  int lost_peer = kNoPeer;         // of a secondary failure: the rank that it lost
  bool may_restart = false;        // worth another attempt
  std::string not_restarted = {};  // "given up after 2 restarts": why none follows; empty: none is expected
  bool exit_timed_out = false;     // ranks did not end after others had, with 0
  bool gave_up = false;            // a rank's own time-out passed, while it waited for others
  bool is_urgent = false;          // a user has asked a second time: workers are killed without a further grace

  friend bool operator==(const Cause&, const Cause&) = default;
};

// A node's first word.
struct NodeHello {
  int version = kControlVersion;
  std::string job;  // --rdzv-id; empty: any
  std::string host;
  int node_rank = kAnyNodeRank;
  int workers = 1;
  std::string nodes;                         // --nnodes, as typed
  std::map<std::string, std::string> same;   // what all nodes must have alike, by its name: the program, …
  std::map<std::string, std::string> alike;  // what they should have alike: variables, versions
  // Its clocks when it said this, nanoseconds: CLOCK_MONOTONIC, which pages show, and the time of day.
  std::int64_t monotonic = 0;
  std::int64_t time_of_day = 0;

  friend bool operator==(const NodeHello&, const NodeHello&) = default;
};
struct NodeFailed {
  int attempt = 0;
  Cause cause;

  friend bool operator==(const NodeFailed&, const NodeFailed&) = default;
};
// One of its ranks has ended with 0.
struct NodeLeft {
  int attempt = 0;
  int rank = 0;

  friend bool operator==(const NodeLeft&, const NodeLeft&) = default;
};
// What the ranks of an attempt finished: a step, as far as it can be seen.
enum class Progress : std::uint8_t { unknown, none, some };
// None of its workers runs any more.
struct NodeEnded {
  int attempt = 0;
  Progress progress = Progress::unknown;

  friend bool operator==(const NodeEnded&, const NodeEnded&) = default;
};
// What a node shows of itself, for all nodes to be judged together.
enum class Subject : std::uint8_t {
  nothing,        // that this version knows
  ranks,          // what they are at: with a heartbeat when it has changed, and in full when it is asked for
  evidence,       // their stacks, and what else can be asked while a job hangs: what a program does not notice
  output,         // what they print
  errors,         // the same, on standard error
  last_evidence,  // evidence by all means, since the job is ended next, or a user asks
  stacks,         // of `evidence` the stacks alone
};
// `text`: JSON as the launcher has it (launcher/watchdog/shown_ranks.h), or output, any bytes.
struct NodeShows {
  int attempt = 0;
  Subject what = Subject::nothing;
  std::string text;

  friend bool operator==(const NodeShows&, const NodeShows&) = default;
};
// From either side: it lives.
struct NodeHeartbeat {
  friend bool operator==(const NodeHeartbeat&, const NodeHeartbeat&) = default;
};

struct CoordinatorRefuses {
  std::string why;

  friend bool operator==(const CoordinatorRefuses&, const CoordinatorRefuses&) = default;
};
// What the node is waiting for.
struct CoordinatorWaits {
  std::string text;
  bool is_spare = false;  // the job runs without it

  friend bool operator==(const CoordinatorWaits&, const CoordinatorWaits&) = default;
};
struct CoordinatorBegins {
  int attempt = 0;
  int node_rank = 0;
  int node_count = 1;
  int first_rank = 0;
  int world_size = 1;
  std::string nodes;  // "a (ranks 0-3), b (ranks 4-7)"
  std::string name;   // of this node in the job, if another one has its host's name; else empty

  friend bool operator==(const CoordinatorBegins&, const CoordinatorBegins&) = default;
};
// The attempt.
struct CoordinatorEnds {
  int attempt = 0;
  Cause cause;

  friend bool operator==(const CoordinatorEnds&, const CoordinatorEnds&) = default;
};
// For it to show this, in full.
struct CoordinatorAsks {
  int attempt = 0;
  Subject what = Subject::nothing;

  friend bool operator==(const CoordinatorAsks&, const CoordinatorAsks&) = default;
};
// What follows the attempt: another one, after some time.
struct CoordinatorRestarts {
  std::string text;

  friend bool operator==(const CoordinatorRestarts&, const CoordinatorRestarts&) = default;
};
// The job; the last message.
struct CoordinatorIsDone {
  Cause cause;

  friend bool operator==(const CoordinatorIsDone&, const CoordinatorIsDone&) = default;
};

using ControlMessage = std::variant<NodeHello, NodeFailed, NodeLeft, NodeEnded, NodeShows, NodeHeartbeat,
                                    CoordinatorRefuses, CoordinatorWaits, CoordinatorBegins, CoordinatorAsks,
                                    CoordinatorEnds, CoordinatorRestarts, CoordinatorIsDone>;

// Any bytes as UTF-8, each as the character of its number, and back: JSON takes nothing else. A character that stands
// for no byte is a question mark.
std::string bytes_to_text(std::string_view bytes);
std::string text_to_bytes(std::string_view text);

// "hello", "begins", ….
std::string_view name_of(const ControlMessage& message);

std::string encode(const ControlMessage& message);
// Nothing: it is none, or of another version.
std::optional<ControlMessage> decode_control(std::string_view bytes);

}  // namespace ddp::wire

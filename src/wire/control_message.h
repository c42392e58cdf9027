// These are the messages between the launchers of one job, as values and as bytes. docs/development/protocol.md,
// section 7, describes them. There is no I/O here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wire/kept_state.h"
#include "wire/succession.h"

namespace ddp::wire {

inline constexpr int kControlVersion = 15;
inline constexpr int kAnyNodeRank = -1;
inline constexpr int kNoPeer = -1;

// Ranks how reliable a cause is. The launcher reports the cause with the highest value.
enum class Knowledge : std::uint8_t {
  secondary,  // a rank lost a peer, and that peer may know the reason
  disputed,   // ranks called different operations, and other nodes may know which is wrong; or a signal that may have
              // been sent to all ranks terminated one
  certain,
};

// Classes of causes. Their names never change, because controllers read them (docs/reference/exit-codes.md).
enum class CauseCode : std::uint8_t {
  none,            // success
  program,         // the program failed by itself
  repeated_error,  // the program failed twice at the same step with the same error
  out_of_memory,   // the kernel killed a rank because memory ran out
  gpu_out_of_memory,
  hardware,   // a GPU or its node needs attention
  killed,     // a rank was killed from outside
  lost_rank,  // a rank lost another one, and nothing shows why
  hang,       // ranks made no progress, or did not exit
  transport,  // all ranks have called a collective, and it made no progress
  cannot_start,
  preempted,    // the job was asked to end with SIGTERM or to save, or a node left
  interrupted,  // the job was asked to end with another signal, such as Ctrl-C
  lost_node,
  launcher,  // ddplaunch failed
};

// Describes why an attempt or the job ends. Exit code 0 means success.
struct Cause {
  std::string text = {};  // "rank 5: exit code 3"; does not contain the node
  std::string node = {};  // the node of the cause; may be empty
  int exit_code = 0;
  int signal = 0;  // signal that terminated the job; 0 if none
  Knowledge knowledge = Knowledge::certain;
  int lost_peer = kNoPeer;         // the rank that was lost, for a secondary failure
  bool may_restart = false;        // true if another attempt may help; of a signal, the job may go on without the node
  std::string not_restarted = {};  // why no attempt follows: "given up after 2 restarts"; empty if none is expected
  bool exit_timed_out = false;     // ranks did not exit after others had exited with code 0
  bool gave_up = false;            // a rank's own time-out passed while it waited for others
  bool has_saved = false;          // of success: the ranks of a node were asked to save and to leave
  bool is_urgent = false;          // the user asked a second time: workers are killed without further grace
  CauseCode code = CauseCode::none;
  std::string error = {};  // names an error that each attempt shows at the same step; empty if it may be chance

  friend bool operator==(const Cause&, const Cause&) = default;
};

// A node sends this message first.
struct NodeHello {
  int version = kControlVersion;
  std::string job;  // --rdzv-id; empty if any
  std::string host;
  int node_rank = kAnyNodeRank;
  int workers = 1;
  std::string nodes;                         // --nnodes as the user typed it
  std::map<std::string, std::string> same;   // values that must be equal on all nodes, by name: the program, …
  std::map<std::string, std::string> alike;  // values that should be equal on all nodes: variables, versions
  // The node's clocks when it sent this, in nanoseconds: CLOCK_MONOTONIC, which pages show, and the time of day.
  std::int64_t monotonic = 0;
  std::int64_t time_of_day = 0;
  std::uint16_t port = 0;  // at which the node listens, so that it may lead the job; 0 if it does not
  Vote vote;

  friend bool operator==(const NodeHello&, const NodeHello&) = default;
};
struct NodeFailed {
  int attempt = 0;
  Cause cause;

  friend bool operator==(const NodeFailed&, const NodeFailed&) = default;
};
// The node sends this when one of its ranks has exited with code 0.
struct NodeLeft {
  int attempt = 0;
  int rank = 0;

  friend bool operator==(const NodeLeft&, const NodeLeft&) = default;
};
// Records whether the ranks of an attempt finished a step, as far as the launcher can see.
enum class Progress : std::uint8_t { unknown, none, some };
// The node sends this when none of its workers is running.
struct NodeEnded {
  int attempt = 0;
  Progress progress = Progress::unknown;
  bool was_asked_to_save = false;  // its ranks were asked to save and to leave
  std::vector<KeptState> kept;     // what its memory holds of the ranks' states

  friend bool operator==(const NodeEnded&, const NodeEnded&) = default;
};
// Names the data that a node sends about itself, so that the coordinator can judge all nodes together.
enum class Subject : std::uint8_t {
  nothing,        // a subject unknown to this version
  ranks,          // state of the ranks; sent with a heartbeat when it has changed, and in full on request
  evidence,       // stacks, and other data that can be read during a hang without the program noticing
  output,         // standard output of the ranks
  errors,         // standard error of the ranks
  last_evidence,  // evidence by all means, because the job is about to be terminated, or a user asks
  stacks,         // only the stacks of `evidence`
  records,        // what the ranks have recorded since the last answer
  usage,          // processors, memory and GPUs that the ranks use, for the views of the job
  proof,          // whether the GPUs of a node can write to each other, beside ranks that hang
  no_proof,       // ends the proof, because the ranks go on
};
// `text` is the launcher's JSON (launcher/run/ranks/shown_ranks.h), or output, which may contain any bytes.
struct NodeShows {
  int attempt = 0;
  Subject what = Subject::nothing;
  std::string text;

  friend bool operator==(const NodeShows&, const NodeShows&) = default;
};
// Either side sends this to show that it is still running.
struct NodeHeartbeat {
  int attempt = -1;       // from a node: the last one that the coordinator has begun
  Electorate electorate;  // from the coordinator
  // When the coordinator sent this, by its clock, ns. A node returns the last one that it has read.
  std::int64_t sent_at = 0;

  friend bool operator==(const NodeHeartbeat&, const NodeHeartbeat&) = default;
};

struct CoordinatorRefuses {
  std::string why;
  std::string job_key = {};  // of the coordinator: see Standing

  friend bool operator==(const CoordinatorRefuses&, const CoordinatorRefuses&) = default;
};
// The coordinator sends a node the reason why it must wait.
struct CoordinatorWaits {
  std::string text;
  bool is_spare = false;  // the job runs without this node
  Standing standing;

  friend bool operator==(const CoordinatorWaits&, const CoordinatorWaits&) = default;
};
struct CoordinatorBegins {
  int attempt = 0;
  int node_rank = 0;
  int node_count = 1;
  int first_rank = 0;
  int world_size = 1;
  std::string nodes;         // "a (ranks 0-3), b (ranks 4-7)"
  std::string name;          // this node's name in the job if another node has the same host name; else empty
  bool may_restart = false;  // a failure of this attempt may be followed by another attempt
  double image_cost = 0;     // share of the time that images of states may take; the same on all nodes
  RestorePlan restore;       // the kept state to begin with
  Standing standing;

  friend bool operator==(const CoordinatorBegins&, const CoordinatorBegins&) = default;
};
// The coordinator ends an attempt with this.
struct CoordinatorEnds {
  int attempt = 0;
  Cause cause;

  friend bool operator==(const CoordinatorEnds&, const CoordinatorEnds&) = default;
};
// The coordinator asks a node to send this subject in full.
struct CoordinatorAsks {
  int attempt = 0;
  Subject what = Subject::nothing;
  std::uint64_t sent_at = 0;  // the coordinator's CLOCK_MONOTONIC, nanoseconds; the answer repeats it

  friend bool operator==(const CoordinatorAsks&, const CoordinatorAsks&) = default;
};
// The coordinator announces that another attempt follows, after some time.
struct CoordinatorRestarts {
  std::string text;

  friend bool operator==(const CoordinatorRestarts&, const CoordinatorRestarts&) = default;
};
// A coordinator that has taken over a job says to a launcher at the job's endpoint that the job runs already. That one
// passes it on to the nodes that have come to it.
struct CoordinatorIsElsewhere {
  std::string job;  // --rdzv-id
  std::string address;
  std::uint16_t port = 0;

  friend bool operator==(const CoordinatorIsElsewhere&, const CoordinatorIsElsewhere&) = default;
};
// The coordinator ends the job with this, which is the last message.
struct CoordinatorIsDone {
  Cause cause;

  friend bool operator==(const CoordinatorIsDone&, const CoordinatorIsDone&) = default;
};

using ControlMessage = std::variant<NodeHello, NodeFailed, NodeLeft, NodeEnded, NodeShows, NodeHeartbeat,
                                    CoordinatorRefuses, CoordinatorWaits, CoordinatorBegins, CoordinatorAsks,
                                    CoordinatorEnds, CoordinatorRestarts, CoordinatorIsElsewhere, CoordinatorIsDone>;

// These functions convert any bytes to UTF-8 and back, because JSON accepts only UTF-8. Each byte becomes the character
// of its number. A character that represents no byte becomes a question mark.
std::string bytes_to_text(std::string_view bytes);
std::string text_to_bytes(std::string_view text);

// Returns the code's name, such as "out_of_memory".
std::string name_of(CauseCode code);
// Returns the message's name, such as "hello" or "begins".
std::string_view name_of(const ControlMessage& message);

std::string encode(const ControlMessage& message);
// Returns std::nullopt if the bytes are no message, or one of another version.
std::optional<ControlMessage> decode_control(std::string_view bytes);

}  // namespace ddp::wire

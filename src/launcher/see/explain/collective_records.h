// What a rank's watchdog or flight recorder left about its collectives in one process group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

enum class CallState : std::uint8_t {
  unknown,
  enqueued,
  started,
  completed,
  timed_out,
  ended,  // completed or failed. The recorder of Gloo does not distinguish these
};

struct RecordedCall {
  // PyTorch's number of the call in its process group. Collectives and point-to-point calls are counted separately.
  std::int64_t number = 0;
  std::string operation;  // "all_reduce". A point-to-point call names its ranks of the group: "send 0->1"
  std::optional<std::int64_t> numel_in;
  std::string type;  // of the inputs: "Float"
  CallState state = CallState::unknown;
  bool is_p2p = false;

  bool is_open() const { return state != CallState::completed && state != CallState::ended; }
  friend bool operator==(const RecordedCall&, const RecordedCall&) = default;
};

// Sets the number to `other` if that is larger.
inline void raise_to(std::optional<std::int64_t>& number, std::optional<std::int64_t> other) {
  if (other && (!number || *number < *other)) number = other;
}

// The default process group, which has all ranks.
inline constexpr std::string_view kDefaultGroup = "0";

struct CollectiveRecords {
  int rank = -1;                     // of the job. -1 if only `rank_of_group` is known
  std::optional<int> rank_of_group;  // of the process group
  std::string group;                 // PyTorch's name of the process group. Empty if it is unknown
  std::string description;           // such as "default_pg". Empty if there is none
  int report = 0;                    // tells reports about different groups without a name apart
  std::vector<int> members;          // ranks of the job, by rank of the group. Empty if they are unknown
  std::optional<int> group_size;

  // Numbers of collectives. 0 says that the rank has not called any.
  std::optional<std::int64_t> last_enqueued;
  std::optional<std::int64_t> last_completed;
  std::vector<RecordedCall> calls;  // in the order of the program

  bool has_all_calls = false;      // `calls` begins with the first call of the rank in this group
  bool is_dump = false;            // from entries of a flight recorder's dump, and not from lines of a log
  bool has_mixed_numbers = false;  // point-to-point calls may have moved the numbers
};

}  // namespace ddp::launcher

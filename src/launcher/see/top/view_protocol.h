// These functions write and read the messages between a running launcher and a view of its job in another process. A
// message is one line of JSON. docs/development/protocol.md, section 9, describes them. They are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/see/view/job_snapshot.h"

namespace ddp::launcher {

// `no_output` ends `output`, which continues until then.
enum class ViewWish : std::uint8_t { snapshot, stacks, output, no_output };

struct ViewRequest {
  ViewWish want = ViewWish::snapshot;
  int rank = 0;  // only for stacks and output

  friend bool operator==(const ViewRequest&, const ViewRequest&) = default;
};

struct ViewAnswer {
  enum class Kind : std::uint8_t { snapshot, stacks, output, error };
  Kind kind = Kind::error;
  JobSnapshot snapshot;            // only for a snapshot
  int rank = 0;                    // only for stacks and output
  std::vector<std::string> lines;  // only for stacks and output; for an error, its text
};

// Return a line with its end.
std::string request_line(const ViewRequest& request);
std::string snapshot_line(std::string_view json);  // `json` is what json_of() returns
std::string stacks_line(int rank, std::span<const std::string> lines);
std::string output_line(int rank, std::span<const std::string> lines);
std::string error_line(std::string_view text);

// Read a line without its end. It may come from any program. The failure is a sentence for the sender or the user.
base::Result<ViewRequest> read_request(std::string_view line);
base::Result<ViewAnswer> read_answer(std::string_view line);

}  // namespace ddp::launcher

// EvidenceSource: what something beside the worker says of a job that hangs, or why it says nothing.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

struct EvidenceSource {
  std::string name;                  // "NCCL RAS"
  std::string text;                  // all that it said; may be long, and is as it came
  std::vector<std::string> essence;  // what of it belongs on a console: a few lines, printable
  std::vector<std::string> missing;  // what could not be had, and why; printable

  friend bool operator==(const EvidenceSource&, const EvidenceSource&) = default;
};

}  // namespace ddp::launcher

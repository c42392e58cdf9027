// Decides from what the logs of a job show: which rank failed first, and why. It is pure, and never guesses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/see/explain/failure.h"
#include "launcher/see/explain/log_reader.h"

namespace ddp::launcher {

// A failure, and the other ranks that failed in the same way.
struct FailureGroup {
  Failure first;           // the first one, or one of them if their order is unknown
  std::vector<int> ranks;  // all of them, ascending, as far as they are known
  std::size_t count = 0;   // failures
  bool is_ordered = true;  // `first` was the first one
};

// What the records of collectives say. See hang_records.h.
struct HangVerdict {
  std::string text;        // "rank 1 has not called all_reduce #5 of group 0, in which ranks 0, 2, 3 wait"
  std::string remedy;      // empty if it is not certain
  std::vector<int> ranks;  // the culprits; empty if none is certain
  bool is_certain = false;
  std::vector<std::string> missing;  // what would be needed to be certain
};

struct Explanation {
  std::vector<FailureGroup> failures;   // of ranks that failed by themselves. The first one is the cause if is_ordered
  bool is_ordered = true;               // the first group came before the others
  std::vector<FailureGroup> secondary;  // of ranks that lost another one, or that waited in vain
  std::vector<FailureGroup> caught;     // failures that a program has or may have handled
  std::optional<HangVerdict> hang;
  std::optional<EndOfRank> end;      // what the launcher says
  std::vector<std::string> missing;  // what would be needed to be certain
  std::uint64_t lines = 0;           // of all logs

  // Returns the cause of the first failure, or null if it is unknown.
  const Cause* cause() const;
  // Returns whether the cause is known, or the rank because of which the others hang.
  bool is_certain() const;
};

// `logs` are those of one job. `hang` is what their records of collectives say, if there are any.
Explanation explain(std::span<const LogFindings> logs, std::optional<HangVerdict> hang);

}  // namespace ddp::launcher

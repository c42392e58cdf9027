// RunRecord contains all that a report shows about a run, read from the lines of its event log.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/run/stacks/stack_merge.h"
#include "launcher/see/view/history_data.h"

namespace ddp::launcher {

// Times are seconds since the beginning of the run, unless a comment says something else.
struct MessageRecord {
  double time = 0;
  std::string node;
  std::string level;  // "note", "warning" or "error"
  std::string text;
};

struct NodeRecord {
  std::string name;
  int first_rank = 0;
  int workers = 0;
};

struct WorkerRecord {
  int rank = 0;
  std::string node;
  int pid = 0;
  std::string gpu;                // empty if it has none
  std::string end;                // such as "exit code 3" or "SIGSEGV"; empty if it is unknown
  std::optional<double> ended;    // time
  std::string error;              // its own message; may be empty
  std::uint64_t peak_memory = 0;  // bytes; 0 if it is unknown
};

struct StallRecord {
  double time = 0;
  double age = 0;                 // seconds
  std::string state;              // such as "hung"
  std::vector<std::string> text;  // as on the console; without it, a sentence about the verdict
  std::string code;               // such as "DDP-H03"
  std::vector<int> culprits;
  std::vector<MergedStack> stacks;
};

struct AttemptRecord {
  int number = 0;
  double begin = 0;
  std::string restored;       // with which kept state it began, as a sentence; empty if there was none
  double since_failure = 0;   // seconds since the failure of the attempt before
  std::optional<double> end;  // std::nullopt if the event log does not contain it
  int world_size = 0;
  std::vector<NodeRecord> nodes;
  int exit_code = 0;
  std::string cause;              // kind of the cause; empty after success
  std::vector<std::string> text;  // as on the console
  std::string next;
  std::vector<int> culprits;
  std::vector<std::string> last_lines;  // of the culprit
  std::string core;
  std::string log_file;
  std::vector<WorkerRecord> workers;  // by rank
  std::vector<StallRecord> stalls;
  std::optional<AttemptHistory> history;
  std::string recording;
};

struct RunRecord {
  std::string run_id;
  std::string version;
  std::string node;
  std::string started;  // such as "2026-11-21T08:43:22.123Z"
  std::vector<std::string> arguments;
  std::vector<std::string> command_line;
  std::vector<std::string> variables;
  std::string directory;
  std::string system;
  std::string nodes;  // as --nnodes has it
  std::string log_directory;
  int workers = 0;
  int max_restarts = 0;
  std::optional<int> exit_code;  // std::nullopt if the event log does not contain the end
  double seconds = 0;            // until the end, or until the last event
  std::vector<std::string> text;
  std::vector<AttemptRecord> attempts;
  std::vector<MessageRecord> messages;
  std::vector<std::string> missing;  // what the event log lacks, as sentences
};

// Reads the lines of one run. `run_id` selects a run if the log contains several; if it is empty, the last one counts.
// If the same run id was used again, its last run counts. Lines that are no events are counted in `missing`. Returns
// std::nullopt if there is no event of that run.
// `histories` replace those of the lines, by attempt.
std::optional<RunRecord> read_run(std::span<const std::string> event_lines, const std::string& run_id = "",
                                  const std::map<int, AttemptHistory>& histories = {});

// Returns seconds since 1970 for a text such as "2026-11-21T08:43:22.123Z", or std::nullopt if it is something else.
std::optional<double> seconds_of_time(const std::string& text);

}  // namespace ddp::launcher

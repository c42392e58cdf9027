// JobSnapshot contains all that the live views show of a job, at one moment. It is a value: a frame, a line and a JSON
// document are functions of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/run/ranks/rank_records.h"
#include "launcher/run/ranks/rank_state.h"
#include "launcher/see/view/curve.h"

namespace ddp::launcher {

// Times are in seconds. Shares are between 0 and 1, of the time of the last 10 s.
struct RankRow {
  int rank = 0;
  std::string node;
  int pid = 0;
  std::string gpu;  // as the plan names it, such as "3"; empty if there is none
  RankState state = RankState::unknown;
  std::string phase;  // such as "data loading" or "evaluation (validation set)"; empty while training
  std::uint64_t steps = 0;
  double steps_per_second = 0;
  double computing = 0;         // share
  double collective = 0;        // share
  double waiting = 0;           // share
  double in_phase = 0;          // share
  double waited_for = 0;        // share in which other ranks waited for this one
  std::string collective_name;  // the last one called, such as "all_reduce sum f32[1024] ('bucket 0')"; may be empty
  std::uint64_t collective_number = 0;
  std::optional<double> collective_age;  // seconds since its call
  std::optional<double> cpus;            // processors in use, such as 1.5
  std::optional<std::uint64_t> rss_bytes;
  std::optional<double> gpu_use;  // share of time in which a kernel ran
  std::optional<std::uint64_t> gpu_memory_bytes;
  std::optional<double> output_age;  // seconds since its last output; std::nullopt if it has printed nothing

  friend bool operator==(const RankRow&, const RankRow&) = default;
};

struct NodeRow {
  std::string name;
  int first_rank = 0;
  int workers = 0;  // 0 for a spare

  friend bool operator==(const NodeRow&, const NodeRow&) = default;
};

struct JobSnapshot {
  std::string version;  // of ddplaunch
  std::string run_id;
  std::string program;  // as typed
  std::string node;     // where the launcher runs that took the snapshot
  int launcher_pid = 0;
  int preloader_pid = 0;  // process on this node that forks workers (--preload); 0 if there is none
  int attempt = 0;
  int max_restarts = 0;
  std::optional<std::uint64_t> restored_step;  // the attempt began with the state after this step, kept in memory
  double uptime = 0;                           // since the start of the job
  double attempt_uptime = 0;                   // since the start of the attempt
  int world_size = 0;
  std::vector<NodeRow> nodes;
  // The program's own count if it reports progress; otherwise the number of synchronised steps.
  std::uint64_t step = 0;
  std::optional<std::uint64_t> total_steps;
  double steps_per_second = 0;
  std::optional<double> eta;          // seconds
  std::vector<ProgressValue> values;  // such as the loss, of the lowest rank that reports any
  std::vector<Curve> curves;          // over the time of the attempt
  double bytes_per_second = 0;        // data of collectives, of all ranks
  int stalls = 0;                     // stalls reported so far
  std::string stall;                  // the verdict on the current one; empty if there is none
  double stall_seconds = 0;           // how long it has lasted
  std::vector<int> culprits;          // ranks that it names
  // False at a node that is not the coordinator, which sees only its own ranks.
  bool has_all_ranks = true;
  std::vector<RankRow> ranks;  // by rank

  friend bool operator==(const JobSnapshot&, const JobSnapshot&) = default;
};

// The next functions write a JobSnapshot as JSON and read it. docs/reference/top.md describes the document.
inline constexpr int kSnapshotSchema = 1;

// Returns one line without its end. Shares are rounded to four digits, and times to milliseconds.
std::string json_of(const JobSnapshot& snapshot);

// Reads what json_of() writes. The text may come from any program: a member that is missing, or has the wrong type,
// keeps its default. Fails if the text is no JSON object, has another schema, or has more than limits::kViewRanks
// ranks.
base::Result<JobSnapshot> read_snapshot(std::string_view text);

}  // namespace ddp::launcher

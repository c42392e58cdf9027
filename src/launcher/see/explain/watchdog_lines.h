// Reads the lines that PyTorch's watchdog of NCCL prints when a collective times out, of PyTorch 2.1 to 2.14.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/see/explain/collective_records.h"

namespace ddp::launcher {

// Each line that WatchdogLines reads contains one of these texts. Each has at least 8 bytes.
std::span<const std::string_view> watchdog_words();
bool may_be_watchdog_line(std::string_view line);

// Returns the name that a flight recorder's dump has for the operation of a line: "all_reduce" for "ALLREDUCE".
std::string operation_name(std::string_view op_type);

//   WatchdogLines lines;
//   for (…) lines.add(rank, line);
//   const HangFinding finding = judge_hang(lines.records(), world_size);
class WatchdogLines {
 public:
  // The rank is that of the job, if a launcher's tag has said it. PyTorch's own tag "[rank3]:" has precedence. Other
  // lines than those of the watchdog are ignored. The lines of a rank have to come in their order.
  void add(std::optional<int> rank, std::string_view line);

  // Returns what the lines say, one item for each rank and process group.
  std::vector<CollectiveRecords> records() const;

 private:
  // "[PG ID 1 PG GUID 3(dp) Rank 0]" or an older form of it.
  struct Prefix {
    std::string group;        // "3". Empty if the line does not name it
    std::string description;  // "dp"
    bool is_short = false;    // "[PG 1 Rank 0]": PyTorch 2.3 has its own number of the group there, 2.4 the name
    std::optional<int> rank_of_group;
  };
  struct Status {
    Prefix prefix;
    std::optional<std::int64_t> enqueued;
    std::optional<std::int64_t> completed;
    std::map<std::int64_t, RecordedCall> calls;  // by number
  };
  // The lines of one process, if they say which rank it has. Otherwise the lines of one rank of one group.
  struct Process {
    int rank = -1;
    std::map<std::string, Status> groups;
    std::map<std::int64_t, RecordedCall> without_group;
    std::optional<int> rank_without_group;
  };
  // PyTorch's own report about the ranks of a group, with TORCH_NCCL_DESYNC_DEBUG.
  struct Desync {
    std::string process;
    std::int64_t number = 0;  // of the call that timed out
    std::string operation;
    std::vector<int> reporter;                            // rank of the group
    std::vector<int> never_joined;                        // ranks of the group
    std::map<int, std::pair<std::int64_t, bool>> states;  // by rank of the group: its last call, and whether it ended
    std::map<int, std::string> operations;
    std::optional<std::int64_t> listed;  // the number to which the next lines belong
  };

  static Prefix prefix_of(std::string_view line);
  void add_call(Process& process, const Prefix& prefix, std::string_view work);
  void add_status(Process& process, const Prefix& prefix, std::string_view line);
  bool add_desync(const std::string& process, std::string_view line);
  std::string name_of(const Prefix& prefix) const;
  std::set<std::string> groups_of(const Desync& report) const;
  void append_process(const Process& process, std::vector<CollectiveRecords>& all) const;
  void append_desync(const Desync& report, int index, std::vector<CollectiveRecords>& all) const;

  std::map<std::string, Process> processes_;
  std::vector<Desync> reports_;
  std::map<std::string, std::size_t> open_reports_;  // by process
  bool is_newer_than_2_3_ = false;
};

}  // namespace ddp::launcher

#include "launcher/see/view/job_snapshot.h"

#include <limits>

#include "launcher/limits.h"
#include "launcher/see/view/json_fields.h"

namespace ddp::launcher {
namespace {

constexpr int kShareDigits = 4;
constexpr int kTimeDigits = 3;

template <typename Fields, typename Row>
void list_rank(Fields& fields, Row& rank) {
  fields.add("rank", rank.rank);
  fields.add("node", rank.node);
  fields.add("pid", rank.pid);
  fields.add("gpu", rank.gpu);
  fields.add_named("state", rank.state, kRankStates);
  fields.add("phase", rank.phase);
  fields.add("steps", rank.steps);
  fields.add("steps_per_second", rank.steps_per_second, kShareDigits);
  fields.add("computing", rank.computing, kShareDigits);
  fields.add("collective", rank.collective, kShareDigits);
  fields.add("waiting", rank.waiting, kShareDigits);
  fields.add("in_phase", rank.in_phase, kShareDigits);
  fields.add("waited_for", rank.waited_for, kShareDigits);
  fields.add("collective_name", rank.collective_name);
  fields.add("collective_number", rank.collective_number);
  fields.add("collective_age_seconds", rank.collective_age, kTimeDigits);
  fields.add("cpus", rank.cpus, kTimeDigits);
  fields.add("rss_bytes", rank.rss_bytes);
  fields.add("gpu_use", rank.gpu_use, kShareDigits);
  fields.add("gpu_memory_bytes", rank.gpu_memory_bytes);
  fields.add("output_age_seconds", rank.output_age, kTimeDigits);
}

template <typename Fields, typename Row>
void list_node(Fields& fields, Row& node) {
  fields.add("name", node.name);
  fields.add("first_rank", node.first_rank);
  fields.add("workers", node.workers);
}

template <typename Fields, typename Row>
void list_value(Fields& fields, Row& value) {
  fields.add("name", value.name);
  // JSON has no such number, but null.
  if constexpr (!std::is_const_v<Row>) value.value = std::numeric_limits<double>::quiet_NaN();
  fields.add_exactly("value", value.value);
}

template <typename Fields, typename Snapshot>
void list_snapshot(Fields& fields, Snapshot& snapshot) {
  fields.add("version", snapshot.version);
  fields.add("run_id", snapshot.run_id);
  fields.add("program", snapshot.program);
  fields.add("node", snapshot.node);
  fields.add("launcher_pid", snapshot.launcher_pid);
  fields.add("preloader_pid", snapshot.preloader_pid);
  fields.add("attempt", snapshot.attempt);
  fields.add("max_restarts", snapshot.max_restarts);
  fields.add("restored_step", snapshot.restored_step);
  fields.add("uptime_seconds", snapshot.uptime, kTimeDigits);
  fields.add("attempt_uptime_seconds", snapshot.attempt_uptime, kTimeDigits);
  fields.add("world_size", snapshot.world_size);
  fields.add("has_all_ranks", snapshot.has_all_ranks);
  fields.add("step", snapshot.step);
  fields.add("total_steps", snapshot.total_steps);
  fields.add("steps_per_second", snapshot.steps_per_second, kShareDigits);
  fields.add("eta_seconds", snapshot.eta, kTimeDigits);
  fields.add_list("values", snapshot.values, [](auto& members, auto& row) { list_value(members, row); });
  fields.add_list("curves", snapshot.curves, [](auto& members, auto& curve) { list_curve(members, curve); });
  fields.add("bytes_per_second", snapshot.bytes_per_second, 0);
  fields.add("stalls", snapshot.stalls);
  fields.add("stall", snapshot.stall);
  fields.add("stall_seconds", snapshot.stall_seconds, kTimeDigits);
  fields.add_numbers("culprits", snapshot.culprits);
  fields.add_list("nodes", snapshot.nodes, [](auto& members, auto& row) { list_node(members, row); });
  fields.add_list("ranks", snapshot.ranks, [](auto& members, auto& row) { list_rank(members, row); });
}

}  // namespace

std::string json_of(const JobSnapshot& snapshot) {
  std::string text;
  text.reserve(1024 + 640 * snapshot.ranks.size());
  FieldWriter::object(text, snapshot, [](auto& fields, auto& all) {
    fields.add("schema", kSnapshotSchema);
    list_snapshot(fields, all);
  });
  return text;
}

base::Result<JobSnapshot> read_snapshot(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return base::Failure{"the snapshot is no JSON object"};
  int schema = 0;
  JobSnapshot snapshot;
  FieldReader::object(json, snapshot, [&](auto& fields, auto& all) {
    fields.add("schema", schema);
    if (schema == kSnapshotSchema) list_snapshot(fields, all);
  });
  if (schema != kSnapshotSchema) {
    return base::Failure{"the snapshot has schema " + std::to_string(schema) + ", and this program reads schema " +
                         std::to_string(kSnapshotSchema) + ". Use the ddplaunch that started the job."};
  }
  if (snapshot.ranks.size() > limits::kViewRanks) return base::Failure{"the snapshot has too many ranks"};
  return snapshot;
}

}  // namespace ddp::launcher

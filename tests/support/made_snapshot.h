// Makes snapshots of jobs for tests of views.
#pragma once

#include <string>

#include "launcher/see/view/job_snapshot.h"

namespace ddp::test {

// Returns a snapshot of a job that trains: ranks of `per_node` per node, all of them alike.
inline launcher::JobSnapshot training_job(int ranks, int per_node = 8) {
  launcher::JobSnapshot job;
  job.version = "1.2.3";
  job.run_id = "night-run";
  job.program = "python train.py --epochs 3";
  job.node = "node0";
  job.launcher_pid = 4321;
  job.max_restarts = 3;
  job.uptime = 3725;
  job.attempt_uptime = 3725;
  job.world_size = ranks;
  for (int first = 0; first < ranks; first += per_node) {
    job.nodes.push_back({"node" + std::to_string(first / per_node), first, std::min(per_node, ranks - first)});
  }
  job.step = 1200;
  job.total_steps = 10'000;
  job.steps_per_second = 12.5;
  job.eta = 704;
  job.values = {{"loss", 1.8421}, {"tok/s", 18'312}};
  job.bytes_per_second = 1.5e9;
  launcher::Curve loss{"loss", {}, {}, {}};
  launcher::Curve memory{"memory", {}, {}, {}};
  for (int i = 0; i < 24; ++i) {
    loss.mean.push_back(i == 3 ? std::nullopt : std::optional(2.0 + 0.125 * (23 - i)));
    memory.mean.push_back(3.0 * (1 << 30));
  }
  memory.least = memory.most = memory.mean;
  loss.least = loss.most = loss.mean;
  job.curves = {loss, {"steps/s", memory.mean, {}, {}}, memory};
  for (int rank = 0; rank < ranks; ++rank) {
    launcher::RankRow row;
    row.rank = rank;
    row.node = "node" + std::to_string(rank / per_node);
    row.pid = 5000 + rank;
    row.gpu = std::to_string(rank % per_node);
    row.state = launcher::RankState::computing;
    row.steps = 1200;
    row.steps_per_second = 12.5;
    row.computing = 0.6;
    row.collective = 0.25;
    row.waiting = 0.1;
    row.in_phase = 0.05;
    row.collective_name = "all_reduce sum f32[1048576] ('bucket 0')";
    row.collective_number = 2400;
    row.collective_age = 0.02;
    row.cpus = 1.04;
    row.rss_bytes = std::uint64_t{3} << 30;
    row.gpu_use = 0.93;
    row.gpu_memory_bytes = std::uint64_t{41} << 30;
    row.output_age = 4;
    job.ranks.push_back(row);
  }
  return job;
}

// Makes the others wait for `culprit`, which computes.
inline void stall(launcher::JobSnapshot& job, int culprit) {
  job.stalls = 1;
  job.stall = "ranks wait in all_reduce of group world for rank " + std::to_string(culprit) +
              ", which has not called it and computes";
  job.stall_seconds = 45;
  job.culprits = {culprit};
  job.steps_per_second = 0;
  job.eta.reset();
  for (launcher::RankRow& row : job.ranks) {
    const bool is_culprit = row.rank == culprit;
    row.state = is_culprit ? launcher::RankState::computing : launcher::RankState::waiting;
    row.steps_per_second = 0;
    row.computing = is_culprit ? 1 : 0;
    row.waiting = is_culprit ? 0 : 1;
    row.collective = row.in_phase = 0;
    row.waited_for = is_culprit ? 1 : 0;
    row.collective_age = is_culprit ? 47 : 45;
  }
}

}  // namespace ddp::test

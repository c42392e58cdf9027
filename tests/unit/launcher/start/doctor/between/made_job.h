// Makes what healthy nodes tell the doctor of each other.
#pragma once

#include <stdexcept>
#include <string>

#include "launcher/start/doctor/between/records.h"

namespace ddp::launcher::doctor {

inline JobRecord healthy_job(int nodes) {
  JobRecord job;
  job.datagrams_sent = 50;
  for (int node = 0; node < nodes; ++node) {
    const std::string host(1, static_cast<char>('a' + node));
    job.addresses.push_back({node, host, "10.0.0." + std::to_string(node + 1), {40001, 40002, 40003}, 29500, 40004});
    job.findings.push_back({node, host, 8, 8, {{"files", Grade::ok, "many", ""}}, {{"NCCL", "2.27.3", true}}, "", ""});
    if (node % 2 == 1) job.speeds.push_back({node - 1, node, 1e9, 1e9});
    NodePaths& paths = job.paths.emplace_back(NodePaths{node, {}, true});
    for (int to = 0; to < nodes; ++to) {
      if (to == node) continue;
      Path& path = paths.paths.emplace_back();
      path.to = to;
      path.ports.assign(3, Reach::open);
      path.large = Flow::arrives;
      path.datagrams = 50;
      path.round_trip_us = 50;
      path.clock_ahead_s = 0.001;
      path.name_means = {"10.0.0." + std::to_string(to + 1)};
    }
  }
  return job;
}

inline Path& path_of(JobRecord& job, int from, int to) {
  for (Path& path : job.paths.at(static_cast<std::size_t>(from)).paths) {
    if (path.to == to) return path;
  }
  throw std::out_of_range("no such path");
}

}  // namespace ddp::launcher::doctor

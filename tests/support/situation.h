// Provides the input of a launch plan: a node, and the options of its user.
#pragma once

#include <string>

#include "launcher/start/plan/launch_plan.h"
#include "support/catch.h"

// Describes a node with four GPUs on two NUMA nodes and sixteen CPUs, whose user runs ./train.
struct Situation {
  ddp::launcher::Options options;
  ddp::launcher::NodeFacts facts;

  Situation() {
    options.command = {"./train", "--epochs", "3"};
    facts.host_name = "a";
    facts.cpu_count = 16;
    facts.gpus = {{0, "GPU-aa11", "0000:17:00.0", 0},
                  {1, "GPU-ab22", "0000:31:00.0", 0},
                  {2, "GPU-cc33", "0000:b1:00.0", 1},
                  {3, "GPU-dd44", "0000:ca:00.0", 1}};
    facts.environment = {"PATH=/bin"};
    facts.program.path = "./train";
    facts.program.found = facts.program.readable = facts.program.is_regular = true;
    facts.program.executable = facts.program.execute_bits = true;
    facts.interpreter = facts.program;
    facts.interpreter.path = "/usr/bin/python3";
    facts.random_id = "0123456789abcdef";
    facts.random_uuid = "11111111-2222-4333-8444-555555555555";
    for (int cpu = 0; cpu < 16; ++cpu) facts.topology.value().cpus.push_back({cpu, cpu / 2, cpu / 4, cpu / 8, cpu / 8});
  }

  Situation& without_gpus() {
    facts.gpus.clear();
    return *this;
  }
  Situation& mode(ddp::launcher::CompatibilityMode mode, const std::string& script = "train.py") {
    options.compatibility_mode = mode;
    options.ending_signals = ddp::launcher::Options().ending_signals;
    if (mode != ddp::launcher::CompatibilityMode::native) options.ending_signals.push_back(SIGQUIT);
    options.command = {script, "--epochs", "3"};
    facts.program.path = script;
    facts.program.executable = facts.program.execute_bits = false;
    return *this;
  }

  ddp::launcher::LaunchPlan plan() const {
    auto result = ddp::launcher::make_launch_plan(options, facts);
    if (!result) FAIL(result.error().message);
    return std::move(result).value();
  }
  ddp::launcher::StartFailure failure() const {
    const auto result = ddp::launcher::make_launch_plan(options, facts);
    REQUIRE_FALSE(result.ok());
    return result.error();
  }
};

// Returns whether a line contains the words.
inline bool mentions(const std::vector<std::string>& lines, const std::string& words) {
  for (const std::string& line : lines) {
    if (line.find(words) != std::string::npos) return true;
  }
  return false;
}

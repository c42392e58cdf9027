#include "launcher/remote/forwarded_environment.h"

#include <algorithm>
#include <string_view>

#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

namespace env = wire::env;

constexpr std::string_view kForwarded[] = {"DDP_*",   "NCCL_*", "GLOO_*",          "UCX_*",      "OMP_*",
                                           "TORCH_*", "PATH",   "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"};
// Of the job in which this launcher runs, should there be one, and not of the one that it starts.
constexpr std::string_view kOfThisJob[] = {env::kAttempt, env::kLastFailure, env::kStatusPage};

std::string_view name_of(std::string_view line) {
  return line.substr(0, line.find('='));
}

bool matches(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool is_forwarded(std::string_view name) {
  if (std::find(std::begin(kOfThisJob), std::end(kOfThisJob), name) != std::end(kOfThisJob)) return false;
  return std::any_of(std::begin(kForwarded), std::end(kForwarded),
                     [&](std::string_view pattern) { return matches(name, pattern); });
}

void set(std::vector<std::string>& lines, std::string_view line) {
  if (name_of(line) == env::kAuthToken) return;
  std::erase_if(lines, [&](const std::string& other) { return name_of(other) == name_of(line); });
  lines.emplace_back(line);
}

}  // namespace

base::Result<std::vector<std::string>> forwarded_environment(std::span<const std::string> environment,
                                                             std::span<const std::string> requests) {
  std::vector<std::string> lines;
  for (const std::string& line : environment) {
    if (is_forwarded(name_of(line))) set(lines, line);
  }
  for (const std::string& request : requests) {
    if (request.find('=') != std::string::npos) {
      set(lines, request);
      continue;
    }
    bool found = request.ends_with('*');
    for (const std::string& line : environment) {
      if (!matches(name_of(line), request)) continue;
      found = true;
      set(lines, line);
    }
    if (found) continue;
    return base::Failure{"--forward-env=" + request + ": there is no such variable here. Set it, or give its value: " +
                         "--forward-env=" + request + "=VALUE."};
  }
  return lines;
}

}  // namespace ddp::launcher

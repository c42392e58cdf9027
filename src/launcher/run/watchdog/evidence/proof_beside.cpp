#include "launcher/run/watchdog/evidence/proof_beside.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"
#include "launcher/run/process/gpu_holders.h"
#include "launcher/run/process/our_programs.h"
#include "launcher/start/facts/node_facts.h"
#include "launcher/start/plan/used_gpu.h"
#include "wire/json_fields.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::seconds kLimit{75};  // the doctor itself needs less

doctor::Finding not_proved(const std::string& why) {
  doctor::Finding finding = doctor::unknown(why, "ddplaunch doctor --deep when the job has ended");
  finding.check = "peer-writes";
  return finding;
}

// Returns whether programs share the GPUs through the Multi-Process Service.
bool uses_mps(const std::vector<std::string>& environment) {
  const std::string folder = find_variable(environment, "CUDA_MPS_PIPE_DIRECTORY").value_or("/tmp/nvidia-mps");
  return ::access((folder + "/control").c_str(), F_OK) == 0;
}

}  // namespace

doctor::Findings findings_in(const std::string& output) {
  doctor::Findings findings;
  try {
    wire::read_json(wire::Json::parse(output).at("nodes").at(0).at("findings"), findings);
  } catch (const std::exception&) {
    findings = {not_proved("ddplaunch doctor has failed beside the workers")};
  }
  return findings;
}

bool use_gpus(std::span<const pid_t> processes, const std::string& proc) {
  constexpr std::string_view kDevice = "/dev/nvidia";
  const auto is_gpu = [&](const std::string& file) {
    return file.size() > kDevice.size() && file.starts_with(kDevice) && file[kDevice.size()] >= '0' &&
           file[kDevice.size()] <= '9';
  };
  std::error_code ignored;
  return std::ranges::any_of(
      processes, [&](pid_t pid) { return has_open_file(proc + "/" + std::to_string(pid), is_gpu, ignored); });
}

void ProofBeside::end() {
  run_.reset();
  limit_.reset();
}

void ProofBeside::start(const LaunchPlan& plan, Done done) {
  if (std::exchange(has_started_, true)) return;
  if (uses_mps(plan.inherited_environment))
    return done({not_proved("an error of the proof would end all programs of MPS")});
  std::vector<std::string> environment = plan.inherited_environment;
  std::erase_if(environment, [](const std::string& line) { return line.starts_with("PET_"); });  // options of the job
  if (const auto gpus = gpus_of_workers(plan); !gpus.empty())
    environment.insert(environment.begin(), std::string(wire::env::kCudaVisibleDevices) + "=" + base::join(gpus, ","));
  const std::vector<std::string> arguments = {"doctor", "--node", "--deep", "--json"};
  const auto ended = [this, done](const std::string& output) {
    limit_.reset();
    done(findings_in(output));
  };
  run_ = std::make_unique<ToolRun>(loop_, our_program("ddplaunch"), arguments, ended, base::UniqueFd(),
                                   std::move(environment));
  if (run_->has_failed()) return done(findings_in(""));
  limit_ = loop_.at(std::chrono::steady_clock::now() + kLimit, [this, done] {
    const Done tell = done;  // end() destroys this function
    end();
    tell({not_proved("the doctor does not answer")});
  });
}

}  // namespace ddp::launcher

#include "launcher/watchdog/torch_watch.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/file.h"
#include "base/printable.h"
#include "launcher/limits.h"
#include "launcher/process/our_programs.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostOfReason = 300;

}  // namespace

TorchWatch::~TorchWatch() {
  reader_.reset();
  for (const auto& [local_rank, file] : files_) {
    for (const char* ending : {".sock", ".groups", ".captures", ".unrecorded", ".failed", ".gloo", ".nccl"}) {
      ::unlink((file + ending).c_str());
    }
  }
}

void TorchWatch::watches(int local_rank, const std::string& file) {
  if (!file.empty()) files_[local_rank] = file;
}

void TorchWatch::look(std::chrono::steady_clock::time_point now) {
  if (files_.empty() || now < next_) return;
  next_ = now + limits::kTorchLook;
  report_failure();
  if (reader_ || has_failed_) return;
  const bool one_can_be_asked = std::ranges::any_of(
      files_, [](const auto& entry) { return ::access((entry.second + ".groups").c_str(), F_OK) == 0; });
  if (one_can_be_asked) start();
}

void TorchWatch::report_failure() {
  for (const auto& [local_rank, file] : files_) {
    const std::string path = file + ".failed";
    if (has_reported_ || ::access(path.c_str(), F_OK) != 0) continue;
    has_reported_ = true;
    log_({LogLevel::warning, LogSource::hangs,
          "cannot observe the collectives of rank " + std::to_string(first_rank_ + local_rank) +
              ", so hangs in it may not be detected: " + base::printable(base::read_line(path), kMostOfReason)});
  }
}

void TorchWatch::start() {
  std::vector<std::string> arguments;
  const std::string our_descriptors = "/proc/" + std::to_string(::getpid()) + "/fd/";
  for (const auto& [local_rank, file] : files_) {
    const int page = processes_.page_of(local_rank);
    if (page < 0) continue;
    arguments.push_back(file);
    arguments.push_back(our_descriptors + std::to_string(page));
    const int ring = processes_.ring_of(local_rank);
    arguments.push_back(ring < 0 ? "" : our_descriptors + std::to_string(ring));
  }
  if (arguments.empty()) return;
  // If the reader ends, its data on the pages soon becomes too old to be used.
  reader_ = std::make_unique<ToolRun>(loop_, our_program("ddp_torch_reader"), arguments,
                                      [this](const std::string&) { reader_.reset(); });
  has_failed_ = reader_->has_failed();
}

}  // namespace ddp::launcher

#include "launcher/run/ranks/torch_watch.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/file.h"
#include "base/printable.h"
#include "launcher/limits.h"
#include "launcher/run/process/our_programs.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostOfReason = 300;
constexpr const char* kCrash = ".crash";

}  // namespace

TorchWatch::~TorchWatch() {
  reader_.reset();
  for (const auto& [local_rank, file] : files_) {
    for (const char* ending :
         {".sock", ".groups", ".captures", ".unrecorded", ".failed", ".gloo", ".nccl", kCrash, ".stacks", ".handled"}) {
      ::unlink((file + ending).c_str());
    }
  }
}

void TorchWatch::watches(int local_rank, const std::string& file) {
  if (file.empty()) return;
  files_[local_rank] = file;
  // A forked worker may crash within its first second.
  const std::string path = file + kCrash;
  if (::mkfifo(path.c_str(), 0600) != 0) return;  // this worker ends without a stack
  pipes_[local_rank].pipe.reset(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

void TorchWatch::poll(std::chrono::steady_clock::time_point now) {
  if (files_.empty() || now < next_) return;
  next_ = now + limits::kTorchPoll;
  report_failure();
  if (reader_ && is_reader_stuck(now)) {
    reader_.reset();
    remove_pipes();
  }
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
    const WorkerDescriptors shown = probe_.descriptors(local_rank);
    if (shown.page < 0) continue;
    arguments.push_back(file);
    arguments.push_back(our_descriptors + std::to_string(shown.page));
    arguments.push_back(shown.ring < 0 ? "" : our_descriptors + std::to_string(shown.ring));
  }
  if (arguments.empty()) return;
  // If the reader ends, its data on the pages soon becomes too old to be used.
  reader_ = std::make_unique<ToolRun>(loop_, our_program("ddp_torch_reader"), arguments, [this](const std::string&) {
    reader_.reset();
    if (has_ended_) remove_pipes();
  });
  has_failed_ = reader_->has_failed();
  if (has_failed_) remove_pipes();
}

void TorchWatch::end() {
  has_ended_ = true;
  if (!reader_) remove_pipes();
}

// A worker that waits there goes on, and others find no pipe.
void TorchWatch::remove_pipes() {
  for (const auto& [local_rank, pipe] : pipes_) ::unlink((files_.at(local_rank) + kCrash).c_str());
  pipes_.clear();
}

bool TorchWatch::is_reader_stuck(std::chrono::steady_clock::time_point now) {
  return std::ranges::any_of(pipes_, [&](auto& entry) {
    CrashPipe& crash = entry.second;
    int bytes = 0;
    if (::ioctl(crash.pipe.get(), FIONREAD, &bytes) != 0 || bytes == 0) {
      crash.unread_since = {};
      return false;
    }
    if (crash.unread_since == std::chrono::steady_clock::time_point{}) crash.unread_since = now;
    return now - crash.unread_since >= limits::kCrashWait;
  });
}

}  // namespace ddp::launcher

#include "launcher/process/run_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>

#include "base/hash.h"
#include "base/random.h"
#include "launcher/process/directory_lock.h"

namespace ddp::launcher {

namespace fs = std::filesystem;

namespace {

// The prefix is not "ddplaunch-", because version 0.1 removes directories of that name that contain no locked file.
constexpr std::string_view kPrefix = "ddp-run-";
constexpr std::size_t kDigits = 12;
constexpr int kTries = 100;

std::string temporary_root() {
  const char* root = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  if (root == nullptr || *root == '\0') return "/tmp";
  // The path is absolute, because a worker may change its directory.
  std::error_code ignored;
  return fs::absolute(root, ignored).string();
}

bool is_run_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kDigits) return false;
  return name.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

void remove_leftovers(const std::string& root) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    struct stat status {};
    const bool is_ours = is_run_name(entry.path().filename().string()) && ::lstat(entry.path().c_str(), &status) == 0 &&
                         status.st_uid == ::geteuid();
    if (!is_ours) continue;
    if (const base::UniqueFd lock = lock_directory(entry.path())) fs::remove_all(entry.path(), ignored);
  }
}

std::string random_name() {
  return base::hex64(base::random64()).substr(0, kDigits);
}

}  // namespace

RunDirectory::RunDirectory(const RunFiles& files, const std::string& run_id) {
  if (files.kind == RunFiles::Kind::none) return;
  temporary_ = files.kind == RunFiles::Kind::temporary;
  if (temporary_) {
    path_ = temporary_root() + "/" + std::string(kPrefix) + random_name();
    return;
  }
  std::string name = run_id;
  std::replace(name.begin(), name.end(), '/', '_');
  // The path is absolute, because a worker may change its directory.
  std::error_code ignored;
  path_ = (fs::absolute(files.log_dir, ignored) / (name + "_" + random_name())).string();
}

std::optional<base::Failure> RunDirectory::make() {
  if (path_.empty()) return std::nullopt;
  if (temporary_) return make_temporary();
  std::error_code error;
  const fs::path parent = fs::path(path_).parent_path();
  fs::create_directories(parent, error);
  if (error) {
    return base::Failure{"cannot make the directory " + parent.string() + ": " + error.message() + ". See --log-dir."};
  }
  if (::mkdir(path_.c_str(), 0777) == 0) return std::nullopt;
  return base::Failure{"cannot make the directory " + path_ + ": " + std::strerror(errno) + ". See --log-dir."};
}

std::optional<base::Failure> RunDirectory::make_temporary() {
  remove_leftovers(temporary_root());
  // Another launcher that finds the directory before it is locked takes it for a leftover and removes it. The name
  // stays, because the guardian knows it.
  for (int tries = 0; tries < kTries; ++tries) {
    if (::mkdir(path_.c_str(), 0700) != 0 && (errno != EEXIST || tries == 0)) break;
    lock_ = lock_directory(path_);
    // Not every file system has such locks; leftovers stay there.
    if (lock_ || (errno != EWOULDBLOCK && errno != ENOENT)) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return base::Failure{"cannot make the directory " + path_ + ": " + std::strerror(errno) +
                       ". Set TMPDIR to a directory that can be written."};
}

std::optional<base::Failure> RunDirectory::begin_attempt(int attempt, int workers) {
  attempt_ = attempt;
  std::error_code error;
  for (int local_rank = 0; local_rank < workers && !path_.empty() && !temporary_ && !error; ++local_rank) {
    fs::create_directories(fs::path(file(local_rank, "x")).parent_path(), error);
  }
  if (error) return base::Failure{"cannot make a directory in " + path_ + ": " + error.message() + "."};
  return std::nullopt;
}

std::string RunDirectory::attempt_file(const std::string& name) const {
  return path_.empty() ? "" : path_ + "/attempt_" + std::to_string(attempt_) + separator() + name;
}

std::string RunDirectory::file(int local_rank, const std::string& name) const {
  return attempt_file(std::to_string(local_rank) + separator() + name);
}

void RunDirectory::remove_if_temporary() {
  std::error_code ignored;
  if (temporary_ && !path_.empty() && ::rmdir(path_.c_str()) != 0) fs::remove_all(path_, ignored);
}

}  // namespace ddp::launcher

#include "launcher/process/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/hash.h"

namespace ddp::launcher {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDirectoryPrefix = "ddplaunch-";
constexpr const char* kLockName = "lock";
constexpr const char* kNewLockName = "lock.new";

std::string temporary_root() {
  const char* root = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  if (root == nullptr || *root == '\0') return "/tmp";
  // Absolute, since a worker may change its directory.
  std::error_code ignored;
  return fs::absolute(root, ignored).string();
}

// Empty if the file cannot be opened, or somebody holds the lock.
base::UniqueFd take_lock(const fs::path& file, int flags) {
  base::UniqueFd lock(::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) lock.reset();
  return lock;
}

// The file gets its name when it is locked: another launcher that finds it unlocked removes the directory.
base::UniqueFd make_lock(const fs::path& directory) {
  const fs::path file = directory / kNewLockName;
  base::UniqueFd lock = take_lock(file, O_CREAT | O_EXCL);
  if (lock && ::rename(file.c_str(), (directory / kLockName).c_str()) != 0) lock.reset();
  return lock;
}

void remove_leftovers(const std::string& root) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    struct stat status {};
    const bool ours = entry.path().filename().string().starts_with(kDirectoryPrefix) &&
                      ::lstat(entry.path().c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                      status.st_uid == ::geteuid();
    if (!ours) continue;
    if (take_lock(entry.path() / kLockName, 0)) fs::remove_all(entry.path(), ignored);
    // Killed before it made its lock; a living launcher has long passed that moment. Nothing but an empty one goes.
    if (::time(nullptr) - status.st_mtime <= 60) continue;
    ::unlink((entry.path() / kNewLockName).c_str());
    ::rmdir(entry.path().c_str());
  }
}

std::string random_name() {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) value = static_cast<std::uint64_t>(::getpid());
  return base::hex64(value).substr(0, 12);
}

}  // namespace

RunDirectory::RunDirectory(const RunFiles& files, const std::string& run_id) {
  if (files.kind == RunFiles::Kind::none) return;
  temporary_ = files.kind == RunFiles::Kind::temporary;
  if (temporary_) {
    path_ = temporary_root() + "/" + kDirectoryPrefix + random_name();
    return;
  }
  std::string name = run_id;
  std::replace(name.begin(), name.end(), '/', '_');
  // Absolute, since a worker may change its directory.
  std::error_code ignored;
  path_ = (fs::absolute(files.log_dir, ignored) / (name + "_" + random_name())).string();
}

std::optional<base::Failure> RunDirectory::make() {
  if (path_.empty()) return std::nullopt;
  std::error_code error;
  if (temporary_) {
    remove_leftovers(temporary_root());
  } else {
    const fs::path parent = fs::path(path_).parent_path();
    fs::create_directories(parent, error);
    if (error) {
      return base::Failure{"cannot make the directory " + parent.string() + ": " + error.message() +
                           ". See --log-dir."};
    }
  }
  if (::mkdir(path_.c_str(), temporary_ ? 0700 : 0777) != 0) {
    return base::Failure{"cannot make the directory " + path_ + ": " + std::strerror(errno) +
                         (temporary_ ? ". Set TMPDIR to a directory that can be written." : ". See --log-dir.")};
  }
  if (!temporary_) return std::nullopt;
  lock_ = make_lock(path_);
  if (lock_) return std::nullopt;
  return base::Failure{"cannot lock the temporary directory " + path_ + ". Set TMPDIR to another directory."};
}

std::optional<base::Failure> RunDirectory::begin_attempt(int attempt, int workers) {
  attempt_ = attempt;
  for (int local_rank = 0; local_rank < workers && !path_.empty(); ++local_rank) {
    std::error_code error;
    fs::create_directories(fs::path(file(local_rank, "x")).parent_path(), error);
    if (error) return base::Failure{"cannot make a directory in " + path_ + ": " + error.message() + "."};
  }
  return std::nullopt;
}

std::string RunDirectory::attempt_file(const std::string& name) const {
  return path_.empty() ? "" : path_ + "/attempt_" + std::to_string(attempt_) + "/" + name;
}

std::string RunDirectory::file(int local_rank, const std::string& name) const {
  return attempt_file(std::to_string(local_rank) + "/" + name);
}

void RunDirectory::remove_if_temporary() {
  std::error_code ignored;
  if (temporary_ && !path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace ddp::launcher

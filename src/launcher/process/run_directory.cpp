#include "launcher/process/run_directory.h"

#include <fcntl.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp is POSIX
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ddp::launcher {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrefix = "ddplaunch-";
constexpr const char* kLockName = "lock";

std::string temporary_root() {
  const char* root = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  if (root == nullptr || *root == '\0') return "/tmp";
  // Absolute, since a worker may change its directory.
  std::error_code ignored;
  return fs::absolute(root, ignored).string();
}

// The lock of a run's directory; empty if there is none, or somebody holds it.
base::UniqueFd take_lock(const fs::path& directory, int flags) {
  base::UniqueFd lock(::open((directory / kLockName).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) lock.reset();
  return lock;
}

void remove_leftovers(const std::string& root) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    struct stat status {};
    const bool ours = entry.path().filename().string().starts_with(kPrefix) &&
                      ::lstat(entry.path().c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                      status.st_uid == ::geteuid();
    if (ours && take_lock(entry.path(), 0)) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

base::Result<std::unique_ptr<RunDirectory>> RunDirectory::create(int workers) {
  remove_leftovers(temporary_root());
  std::string path;
  base::UniqueFd lock;
  // Another launcher may take a directory for a leftover in the moment before it is locked: then make another.
  for (int tries = 0; tries < 10 && !(lock && fs::exists(fs::path(path) / kLockName)); ++tries) {
    path = temporary_root() + "/" + kPrefix + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      return base::Failure{"cannot make the temporary directory " + path + ": " + std::strerror(errno) +
                           ". Set TMPDIR to a directory that can be written."};
    }
    lock = take_lock(path, O_CREAT);
  }
  if (!lock) return base::Failure{"cannot lock the temporary directory " + path + ". Set TMPDIR to another directory."};
  std::unique_ptr<RunDirectory> directory(new RunDirectory(path, std::move(lock)));
  for (int local_rank = 0; local_rank < workers; ++local_rank) {
    std::error_code error;
    fs::create_directories(fs::path(directory->error_file(local_rank)).parent_path(), error);
    if (error) return base::Failure{"cannot make a directory in " + path + ": " + error.message() + "."};
  }
  return directory;
}

RunDirectory::~RunDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string RunDirectory::error_file(int local_rank) const {
  return path_ + "/attempt_0/" + std::to_string(local_rank) + "/error.json";
}

}  // namespace ddp::launcher

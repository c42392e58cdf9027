#include "launcher/run/process/private_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/random.h"
#include "launcher/run/process/process_texts.h"

namespace ddp::launcher {

namespace fs = std::filesystem;

namespace {

// The prefix is not "ddplaunch-", because version 0.1 removes directories of that name that contain no locked file.
constexpr std::string_view kPrefix = "ddp-run-";
constexpr std::size_t kDigits = 12;
constexpr int kTries = 100;

bool is_own_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kDigits) return false;
  return name.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

void remove_leftovers(const std::string& root) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    struct stat status {};
    const bool is_ours = is_own_name(entry.path().filename().string()) && ::lstat(entry.path().c_str(), &status) == 0 &&
                         status.st_uid == ::geteuid();
    if (!is_ours) continue;
    if (const base::UniqueFd lock = lock_directory(entry.path())) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

PrivateDirectory::PrivateDirectory(std::vector<std::string> roots)
    : roots_(std::move(roots)), name_(std::string(kPrefix) + base::hex64(base::random64()).substr(0, kDigits)) {}

std::optional<base::Failure> PrivateDirectory::make(const Check& check) {
  base::Failure all{kNoRootText};
  for (const std::string& root : roots_) {
    auto failure = make_in(root);
    const std::string path = root + "/" + name_;
    if (!failure && check) failure = check(path);
    if (!failure) {
      path_ = path;
      return std::nullopt;
    }
    lock_.reset();
    ::rmdir(path.c_str());
    all.message = (&root == &roots_.front() ? "" : all.message + "; ") + failure->message;
  }
  return all;
}

std::optional<base::Failure> PrivateDirectory::make_in(const std::string& root) {
  remove_leftovers(root);
  const std::string path = root + "/" + name_;
  // Another launcher that finds the directory before it is locked takes it for a leftover and removes it. The name
  // stays, because the guardian knows it.
  for (int tries = 0; tries < kTries; ++tries) {
    if (::mkdir(path.c_str(), S_IRWXU) != 0 && (errno != EEXIST || tries == 0)) break;
    lock_ = lock_directory(path);
    // Not every file system has such locks; leftovers stay there.
    if (lock_ || (errno != EWOULDBLOCK && errno != ENOENT)) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return base::Failure{no_directory_made_text(path, std::strerror(errno))};
}

// The supervisor may have used any of the roots, and the guardian does not know which.
void PrivateDirectory::remove() {
  std::error_code ignored;
  for (const std::string& root : roots_) {
    const std::string path = root + "/" + name_;
    if (::rmdir(path.c_str()) != 0 && errno != ENOENT) fs::remove_all(path, ignored);
  }
}

std::string temporary_root() {
  const char* root = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  if (root == nullptr || *root == '\0') return "/tmp";
  std::error_code ignored;
  return fs::absolute(root, ignored).string();
}

std::vector<std::string> roots_of_sockets() {
  std::vector<std::string> roots = {temporary_root()};
  for (const char* root : {"/tmp", "/var/tmp", "/dev/shm"}) {
    if (std::ranges::find(roots, root) == roots.end()) roots.emplace_back(root);
  }
  return roots;
}

std::optional<base::Failure> check_for_sockets(const std::string& path, std::size_t name_length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() + 1 + name_length >= sizeof address.sun_path) return base::Failure{too_long_for_socket_text(path)};
  const std::string trial = path + "/s";
  std::memcpy(address.sun_path, trial.c_str(), trial.size() + 1);
  const base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return base::Failure{no_socket_in_text(path, std::strerror(errno))};
  }
  ::unlink(trial.c_str());
  return std::nullopt;
}

base::UniqueFd lock_directory(const std::string& path) {
  base::UniqueFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock) return {};
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    lock.reset();
    errno = error;
    return {};
  }
  // Between the two calls, another launcher may have removed the directory, and its owner may have created it again.
  struct stat locked {};
  struct stat named {};
  const bool is_same = ::fstat(lock.get(), &locked) == 0 && ::lstat(path.c_str(), &named) == 0 &&
                       locked.st_ino == named.st_ino && locked.st_dev == named.st_dev;
  if (is_same) return lock;
  lock.reset();
  errno = ENOENT;
  return {};
}

}  // namespace ddp::launcher

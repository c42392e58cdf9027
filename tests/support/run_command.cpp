#include "support/run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "support/paths.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace {

constexpr auto kLimit = std::chrono::seconds(100);

}  // namespace

Command::Command(std::vector<std::string> words) : words_(std::move(words)) {
  for (char** line = environ; *line != nullptr; ++line) {
    const std::string text = *line;
    environment_[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
}

Command::~Command() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {out_fd_, err_fd_}) {
    if (fd >= 0) ::close(fd);
  }
}

Command& Command::set_environment(const std::string& name, const std::string& value) {
  environment_[name] = value;
  return *this;
}

void Command::start() {
  int out[2];
  int err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  std::vector<char*> argv;
  for (std::string& word : words_) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment_) lines.push_back(name + "=" + value);
  std::vector<char*> envp;
  for (std::string& line : lines) envp.push_back(line.data());
  envp.push_back(nullptr);
  start_ = std::chrono::steady_clock::now();
  const int error = ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  ::close(err[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
  if (error != 0) throw std::runtime_error("cannot start " + words_[0]);
}

// Reads what has arrived from either output. Returns false once both have ended.
bool Command::read_some(int timeout_ms) {
  pollfd entries[2] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};
  if (out_fd_ < 0 && err_fd_ < 0) return false;
  if (::poll(entries, 2, timeout_ms) <= 0) return true;
  const auto drain = [](const pollfd& entry, int& fd, std::string& text) {
    if (fd < 0 || entry.revents == 0) return;
    char bytes[65536];
    const ssize_t got = ::read(fd, bytes, sizeof bytes);
    if (got > 0) {
      text.append(bytes, static_cast<std::size_t>(got));
    } else {
      ::close(fd);
      fd = -1;
    }
  };
  drain(entries[0], out_fd_, out_);
  drain(entries[1], err_fd_, err_);
  return true;
}

bool Command::wait_for_output(const std::string& text) {
  while (out_.find(text) == std::string::npos) {
    if (std::chrono::steady_clock::now() - start_ > kLimit || !read_some(100)) return false;
  }
  return true;
}

CommandResult Command::wait() {
  CommandResult result;
  int status = 0;
  while (true) {
    read_some(5);
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) break;
    if (std::chrono::steady_clock::now() - start_ > kLimit) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, &status, 0);
      result.exit_code = -1;
      break;
    }
  }
  pid_ = 0;
  result.elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start_);
  // Output from before the end is in the pipes. An orphan that still has one open is not waited for.
  for (std::size_t before = std::string::npos; before != out_.size() + err_.size();) {
    before = out_.size() + err_.size();
    read_some(20);
  }
  if (result.exit_code != -1) result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.out = out_;
  result.err = err_;
  return result;
}

CommandResult run_command(std::vector<std::string> words, const std::map<std::string, std::string>& environment) {
  Command command(std::move(words));
  for (const auto& [name, value] : environment) command.set_environment(name, value);
  command.start();
  return command.wait();
}

std::string built(const std::string& program) {
  return ddp::test::bin_directory() + "/" + program;
}

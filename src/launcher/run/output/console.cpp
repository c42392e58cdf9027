#include "launcher/run/output/console.h"

#include <fcntl.h>
#include <limits.h>  // NOLINT(modernize-deprecated-headers): PIPE_BUF is POSIX
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "launcher/run/output/output_texts.h"

namespace ddp::launcher {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kWriteBytes = std::size_t{256} << 10;  // bytes collected before a write within a turn
constexpr std::size_t kKeptBytes = std::size_t{1} << 20;     // capacity that an empty backlog keeps
constexpr auto kAsk = std::chrono::milliseconds(100);        // interval between two calls of interrupted()

}  // namespace

bool same_file(int one, int other) {
  struct stat a {};
  struct stat b {};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino &&
         a.st_rdev == b.st_rdev;
}

Console::Console(net::EventLoop& loop, int fd, LineTag& tag, ConsoleBounds bounds)
    : loop_(loop), fd_(fd), bounds_(bounds), terminal_(::isatty(fd) == 1), layout_(tag, terminal_) {
  choose_way();
}

void Console::choose_way() {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) {
    closed_ = true;  // the launcher was started with this descriptor closed
    return;
  }
  if (S_ISREG(status.st_mode)) return;
  is_pipe_ = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode);
  if (S_ISSOCK(status.st_mode)) {
    way_ = Way::socket;
    return;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd_);
  own_.reset(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  way_ = own_ ? Way::own : Way::polled;
}

ssize_t Console::write_some() {
  const char* from = backlog_.data() + sent_;
  const std::size_t size = unsent();
  if (detour_.take) {
    const auto taken = detour_.take({from, size});
    if (taken && *taken > 0) return static_cast<ssize_t>(*taken);
    errno = EAGAIN;
    if (taken) return -1;
    detour_ = {};
  }
  if (way_ == Way::own) return ::write(own_.get(), from, size);
  if (way_ == Way::plain) return ::write(fd_, from, size);
  if (way_ == Way::socket) return ::send(fd_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  // A pipe that is writable takes PIPE_BUF bytes without blocking.
  pollfd room{fd_, POLLOUT, 0};
  if (::poll(&room, 1, 0) == 1) return ::write(fd_, from, std::min<std::size_t>(size, PIPE_BUF));
  errno = EAGAIN;
  return -1;
}

void Console::show(const OutputLine& line) {
  if (closed_) return;
  if (before_line) before_line();
  const auto stream = static_cast<std::size_t>(line.stream);
  if (losing_.size() <= stream) losing_.resize(stream + 1);
  const bool is_too_much = line.gathered && unsent() >= std::max(bounds_.backlog, limits::kGatheredUnshown);
  if (dropping_ || is_too_much || losing_[stream] != 0) {
    if (losing_[stream] == 0 && (line.piece.begins || !line.piece.is_only_an_end())) lost_ += line.times;
    losing_[stream] = line.piece.ends ? 0 : 1;
    return;
  }
  // Growth by doubling could need twice the bound in memory. Memory that is reserved and not used costs nothing.
  if (backlog_.size() > kKeptBytes && backlog_.capacity() < bounds_.backlog) backlog_.reserve(2 * bounds_.backlog);
  erase_footer();
  layout_.append(line, backlog_);
  if (unsent() >= kWriteBytes && !blocked_) flush();
}

void Console::set_footer(std::vector<std::string> lines) {
  if (!terminal_ || closed_ || detour_.take) return;
  const bool is_over = lines.empty();
  footer_.set(std::move(lines));
  if (!is_over) return update_footer();
  footer_timer_.reset();
  redraw_footer();
}

TerminalSize Console::size() const {
  winsize size{};
  if (::ioctl(fd_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

void Console::redraw_footer() {
  if (!footer_.is_shown() || closed_) return;
  erase_footer();
  flush();
}

void Console::yield_footer() {
  if (!terminal_ || closed_) return;
  footer_due_ = steady_clock::now() + limits::kFooterPause;
  redraw_footer();
}

// The ends of the footer's lines are no ends of the workers' lines.
void Console::append_footer(const std::string& bytes) {
  for (const char byte : bytes) {
    backlog_ += byte;
    if (byte == '\n') own_lines_.push_back(backlog_.size());
  }
}

void Console::erase_footer() {
  if (footer_.is_shown()) append_footer(footer_.erase());
}

// A slow terminal drops drawings, but no output.
void Console::update_footer() {
  if (!footer_.is_outdated() || closed_ || unsent() > 0 || detour_.take) return;
  const auto now = steady_clock::now();
  if (now < footer_due_) {
    if (footer_timer_) return;
    footer_timer_ = loop_.at(footer_due_, [this] {
      const auto spent = std::move(footer_timer_);
      update_footer();
    });
    return;
  }
  footer_due_ = now + limits::kFooterPause;
  append_footer(footer_.draw(layout_.cursor(), size()));
  if (unsent() > 0) flush();
}

void Console::append_own(std::string_view line) {
  erase_footer();
  layout_.append_own(line, backlog_);
  own_lines_.push_back(backlog_.size());
}

std::int64_t Console::worker_lines_unsent() const {
  const auto from = static_cast<std::ptrdiff_t>(sent_);
  const auto own = std::ranges::count_if(own_lines_, [&](std::size_t end) { return end > sent_; });
  return std::count(backlog_.begin() + from, backlog_.end(), '\n') - own;
}

void Console::flush() {
  while (unsent() > 0) {
    const ssize_t written = write_some();
    if (written >= 0) {
      sent_ += static_cast<std::size_t>(written);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return close(errno);
    blocked_ = true;
    trim();
    if (!writable_ && !detour_.take) watch();
    return check_bounds();
  }
  blocked_ = false;
  writable_.reset();
  trim();
  check_bounds();
  update_footer();
}

void Console::trim() {
  if (unsent() == 0) {
    read_ = reported_;
    backlog_.clear();
    own_lines_.clear();
    sent_ = 0;
    if (backlog_.capacity() > kKeptBytes) backlog_.shrink_to_fit();
  } else if (sent_ > backlog_.size() / 4) {
    backlog_.erase(0, sent_);
    std::erase_if(own_lines_, [&](std::size_t end) { return end <= sent_; });
    for (std::size_t& end : own_lines_) end -= sent_;
    sent_ = 0;
  }
}

void Console::watch() {
  writable_ = loop_.watch_writable(descriptor(), [this] {
    const auto spent = std::move(writable_);
    flush();
  });
}

void Console::check_bounds() {
  if (!full_ && !dropping_ && unsent() >= bounds_.backlog) {
    full_ = true;
    full_since_ = steady_clock::now();
    if (!bounds_.lossless) stall_ = loop_.at(full_since_ + bounds_.stall, [this] { tick(); });
  } else if (full_ && unsent() <= bounds_.backlog - bounds_.backlog / 16) {
    stop_waiting();
    tell_lost();
  } else if (dropping_ && unsent() <= bounds_.backlog / 2) {
    dropping_ = false;
    tell_lost();
    flush();
  }
}

void Console::tick() {
  if (!full_ || bounds_.lossless || steady_clock::now() < full_since_ + bounds_.stall) return;
  dropping_ = true;
  stop_waiting();
}

void Console::stop_waiting() {
  full_ = false;
  const auto spent = std::move(stall_);  // this may run in its callback
  if (on_room) on_room();
}

void Console::tell_lost() {
  if (lost_ == reported_) return;
  const std::int64_t lines = lost_ - reported_;
  reported_ = lost_;
  append_own(lost_lines_text(lines, bounds_.lossless));
}

void Console::close(int error) {
  closed_ = true;
  blocked_ = false;
  sent_ = backlog_.size();
  trim();
  writable_.reset();
  footer_timer_.reset();
  if (full_) stop_waiting();
  dropping_ = false;
  if (on_closed) on_closed(error);
}

bool Console::flush_within(std::chrono::milliseconds stall, std::chrono::milliseconds limit,
                           const std::function<bool()>& interrupted) {
  const auto begin = steady_clock::now();
  auto progress = begin;
  flush();
  while (unsent() > 0) {
    const auto now = steady_clock::now();
    const auto end = std::min(progress + stall, begin + limit);
    if (now >= end || (interrupted && interrupted())) return false;
    const auto wait = std::min<steady_clock::duration>(end - now, kAsk);
    pollfd room{descriptor(), POLLOUT, 0};
    const auto wait_ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
    if (::poll(&room, 1, static_cast<int>(wait_ms)) <= 0) continue;
    const std::size_t before = unsent();
    flush();
    if (unsent() != before) progress = steady_clock::now();
  }
  return true;
}

void Console::say_goodbye(const std::function<bool()>& interrupted) {
  if (closed_) return;
  dropping_ = false;
  erase_footer();
  footer_.set({});
  footer_timer_.reset();
  if (bounds_.ends_last_line) layout_.finish(backlog_);
  tell_lost();
  constexpr auto kForEver = std::chrono::hours(24 * 365);
  const bool waits = bounds_.lossless;
  untold_ = 0;
  if (!flush_within(waits ? kForEver : bounds_.stall, waits ? kForEver : bounds_.goodbye, interrupted)) {
    lost_ += worker_lines_unsent();
    untold_ = lost_ - read_;
    reported_ = lost_;
    sent_ = backlog_.size();
    trim();
    blocked_ = false;
  }
  writable_.reset();
  stall_.reset();
  full_ = false;
}

}  // namespace ddp::launcher

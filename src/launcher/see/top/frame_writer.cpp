#include "launcher/see/top/frame_writer.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ddp::launcher {
namespace {

// ECMA-48, and the private modes of terminals. A terminal that does not know a mode ignores it.
constexpr const char* kBeginUpdate = "\x1b[?2026h";
constexpr const char* kEndUpdate = "\x1b[?2026l";
constexpr const char* kClear = "\x1b[2J";
constexpr const char* kClearLine = "\x1b[K";

}  // namespace

std::string frame_change(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  std::string bytes;
  if (before.empty()) bytes += kClear;
  for (std::size_t row = 0; row < after.size(); ++row) {
    const bool was_shown = row < before.size();
    if (was_shown ? before[row] == after[row] : after[row].empty() && before.empty()) continue;
    // The line is cleared first: clearing behind a line that fills its row would clear its last column.
    bytes.append("\x1b[").append(std::to_string(row + 1)).append(";1H").append(kClearLine).append(after[row]);
  }
  for (std::size_t row = after.size(); row < before.size(); ++row) {
    bytes.append("\x1b[").append(std::to_string(row + 1)).append(";1H").append(kClearLine);
  }
  return bytes.empty() ? "" : kBeginUpdate + bytes + kEndUpdate;
}

void FrameWriter::show(std::vector<std::string> frame) {
  if (!unsent_.empty()) {
    if (!next_.empty()) ++dropped_;
    next_ = std::move(frame);
    return;
  }
  unsent_ = frame_change(shown_, frame);
  shown_ = std::move(frame);
  write();
}

void FrameWriter::forget() {
  shown_.clear();
}

void FrameWriter::abandon() {
  unsent_.clear();
  next_.clear();
  writable_.reset();
  shown_.clear();
}

void FrameWriter::write() {
  std::size_t sent = 0;
  while (sent < unsent_.size()) {
    const ssize_t count = ::write(fd_, unsent_.data() + sent, unsent_.size() - sent);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      unsent_.erase(0, sent);
      writable_ = loop_.watch_writable(fd_, [this] {
        const auto spent = std::move(writable_);
        write();
      });
      return;
    }
    if (count <= 0) {
      abandon();
      if (failed_) std::exchange(failed_, nullptr)();
      return;
    }
    sent += static_cast<std::size_t>(count);
  }
  unsent_.clear();
  if (!next_.empty()) show(std::exchange(next_, {}));
}

}  // namespace ddp::launcher

#include "launcher/run/job/control_link.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "store/limits.h"
#include "wire/limits.h"

namespace ddp::launcher {

ControlLink::ControlLink(net::EventLoop& loop, store::StoreVisit visit, Callbacks callbacks)
    : loop_(loop), visit_(std::move(visit)), callbacks_(std::move(callbacks)) {
  readable_ = loop_.keep_watching(fd(), [this] { hear(); });
}

void ControlLink::send(const wire::ControlMessage& message) {
  const std::string bytes = wire::encode(message);
  if (bytes.size() > limits::kStoreValueBytes) return;
  out_ += store::StoreVisit::control_request(bytes);
  if (!writable_) flush();
}

void ControlLink::flush() {
  while (unsent() > 0) {
    const ssize_t written = ::send(fd(), out_.data() + sent_, unsent(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    // An error of the connection is reported where the connection is read.
    if (written < 0 && errno != EAGAIN) out_.resize(sent_);
    if (written <= 0) break;
    sent_ += static_cast<std::size_t>(written);
  }
  out_.erase(0, sent_);
  sent_ = 0;
  if (unsent() == 0 || writable_) return;
  writable_ = loop_.watch_writable(fd(), [this] {
    const auto spent = std::move(writable_);
    flush();
    if (callbacks_.has_sent) callbacks_.has_sent();
  });
}

store::StoreVisit ControlLink::give_up() {
  readable_.reset();
  writable_.reset();
  return std::move(visit_);
}

void ControlLink::hear() {
  std::array<char, 64 << 10> buffer;
  const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    const std::string why = got == 0 ? "it has closed the connection" : std::strerror(errno);
    readable_.reset();
    return callbacks_.lost(why, got == 0 ? LinkEnd::closed : LinkEnd::broken);
  }
  in_.append(buffer.data(), static_cast<std::size_t>(got));
  std::size_t at = 0;
  const char* fault = nullptr;
  while (fault == nullptr && in_.size() - at >= sizeof(std::uint64_t)) {
    std::uint64_t length = 0;
    std::memcpy(&length, in_.data() + at, sizeof length);
    if (length > limits::kStoreUnsentBytes) {
      fault = "it does not use the protocol of a coordinator";
    } else if (in_.size() - at - sizeof length < length) {
      break;
    } else {
      const auto message = wire::decode_control(std::string_view(in_).substr(at + sizeof length, length));
      at += sizeof length + length;
      message ? callbacks_.heard(*message) : static_cast<void>(fault = "it runs another version of ddplaunch");
    }
  }
  in_.erase(0, at);
  if (fault == nullptr) return;
  readable_.reset();
  callbacks_.lost(fault, LinkEnd::misused);
}

}  // namespace ddp::launcher

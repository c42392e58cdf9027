#include "store/server/served_client.h"

#include <sys/socket.h>

#include <cerrno>

#include "wire/limits.h"

namespace ddp::store {

ServedClient::ServedClient(ConnectionId id, base::UniqueFd socket, std::string peer,
                           const wire::StoreRequestLimits& limits, TimePoint now)
    : id_(id), socket_(std::move(socket)), peer_(std::move(peer)), since_(now), parser_(limits) {}

ServedClient::Input ServedClient::receive(std::span<char> scratch) {
  const ssize_t received = ::recv(socket_.get(), scratch.data(), scratch.size(), MSG_DONTWAIT);
  if (received > 0) parser_.feed({scratch.data(), static_cast<std::size_t>(received)});
  if (received > 0 || (received < 0 && (errno == EAGAIN || errno == EINTR))) return Input::open;
  return received < 0 && errno == ETIMEDOUT ? Input::timed_out : Input::closed;
}

void ServedClient::send(std::string_view bytes) {
  // Sent bytes are removed when they are the larger part, so that each byte is moved at most once.
  if (sent_ > output_.size() / 2) {
    output_.erase(0, sent_);
    sent_ = 0;
  }
  output_.append(bytes);
}

bool ServedClient::flush() {
  while (unsent() > 0) {
    const ssize_t sent = ::send(socket_.get(), output_.data() + sent_, unsent(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
    sent_ += static_cast<std::size_t>(sent);
  }
  if (is_closing_) ::shutdown(socket_.get(), SHUT_WR);
  sent_ = 0;
  output_.clear();
  if (output_.capacity() > limits::kStoreIdleBytes) output_ = std::string();
  return true;
}

std::size_t ServedClient::held_bytes() const {
  const std::size_t held = parser_.held_bytes() + output_.capacity();
  return held > 2 * limits::kStoreIdleBytes ? held : 0;
}

}  // namespace ddp::store

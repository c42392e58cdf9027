#include "store/server/served_client.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "store/limits.h"
#include "store/server/gatekeeper.h"
#include "store/server/store_table.h"
#include "wire/limits.h"

namespace ddp::store {

ServedClient::ServedClient(ConnectionId id, base::UniqueFd socket, std::string peer,
                           const wire::StoreRequestLimits& limits, TimePoint now)
    : id_(id), socket_(std::move(socket)), peer_(std::move(peer)), since_(now), parser_(limits) {}

ServedClient::Input ServedClient::receive(std::span<char> scratch) {
  const ssize_t received = ::recv(socket_.get(), scratch.data(), scratch.size(), MSG_DONTWAIT);
  if (received > 0) parser_.feed({scratch.data(), static_cast<std::size_t>(received)});
  if (received > 0 || (received < 0 && (errno == EAGAIN || errno == EINTR))) return Input::open;
  if (received == 0) return Input::closed;
  return errno == ETIMEDOUT ? Input::timed_out : Input::reset;
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

std::vector<const ServedClient*> all_of(const Clients& clients) {
  std::vector<const ServedClient*> all;
  for (const auto& [id, client] : clients) all.push_back(client.get());
  return all;
}

void introduce_ranks(Clients& clients, Gatekeeper& gatekeeper,
                     const std::function<std::vector<RankedSocket>()>& sockets, StoreTable& table) {
  std::unordered_map<std::uint64_t, ConnectionId> unknown;
  for (const auto& [id, client] : clients) {
    // A search has limited time and may have missed the client. An unknown client is not searched for without end.
    if (table.ranks().find(id) != nullptr || client->rank_searches++ >= limits::kStoreNamingTries) continue;
    if (const auto socket = gatekeeper.socket_of_peer(client->fd())) unknown.emplace(*socket, id);
  }
  if (unknown.empty()) return;
  for (RankedSocket& socket : sockets()) {
    // If several processes hold a socket, as after a fork, it belongs to the first.
    const auto client = unknown.extract(socket.inode);
    if (client) table.introduce(client.mapped(), std::move(socket.rank));
  }
}

}  // namespace ddp::store

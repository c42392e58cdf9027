#include "torch_reader/worker_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/uninterrupted.h"
#include "base/unique_fd.h"

namespace ddp::torch_reader {
namespace {

using Clock = std::chrono::steady_clock;

// For comparison, 2000 calls take one million bytes.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

base::Failure failed(const char* what) {
  return {std::string(what) + ": " + std::strerror(errno)};  // NOLINT(concurrency-mt-unsafe): one thread
}

// Returns the answer without its header. The server ends an answer by closing the connection.
base::Result<std::string> body_of(std::string answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  if (end == std::string::npos) return base::Failure{"the answer has no complete header"};
  const std::string_view status = std::string_view(answer).substr(0, answer.find("\r\n"));
  if (status.find(" 200") == std::string_view::npos) return base::Failure{"the answer is " + std::string(status)};
  answer.erase(0, end + 4);
  return answer;
}

}  // namespace

base::Result<std::string> ask(const std::string& socket_path, const std::string& handler,
                              std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  const base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed("socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return base::Failure{"the path of the socket is too long"};
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failed("connect");
  }
  const std::string request =
      "POST /handler/" + handler + " HTTP/1.1\r\nHost: worker\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    return failed("send");
  }
  std::string answer;
  std::array<char, 65536> bytes;
  while (answer.size() < kMostBytes) {
    if (base::poll_until(socket.get(), POLLIN, until) <= 0) return base::Failure{"no answer in time"};
    const ssize_t length = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (length == 0) return body_of(std::move(answer));
    if (length < 0 && errno != EAGAIN && errno != EINTR) return failed("recv");
    if (length > 0) answer.append(bytes.data(), static_cast<std::size_t>(length));
  }
  return base::Failure{"the answer is too long"};
}

}  // namespace ddp::torch_reader

#include "torch_reader/worker_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

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

// The server ends an answer by closing the connection.
base::Result<Answer> answer_of(std::string text) {
  constexpr std::string_view kHttp = "HTTP/1.1 ";
  const std::size_t end = text.find("\r\n\r\n");
  Answer answer;
  const char* const number = text.data() + std::min(kHttp.size(), text.size());
  std::from_chars(number, text.data() + text.size(), answer.status);
  if (end == std::string::npos || answer.status == 0) return base::Failure{"the answer has no complete header"};
  text.erase(0, end + 4);
  answer.body = std::move(text);
  return answer;
}

}  // namespace

base::Result<Answer> ask(const std::string& socket_path, const std::string& handler, std::chrono::milliseconds time) {
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
    if (length == 0) return answer_of(std::move(answer));
    if (length < 0 && errno != EAGAIN && errno != EINTR) return failed("recv");
    if (length > 0) answer.append(bytes.data(), static_cast<std::size_t>(length));
  }
  return base::Failure{"the answer is too long"};
}

}  // namespace ddp::torch_reader

#include "launcher/see/top/view_client.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;

}  // namespace

base::Result<ViewAnswer> ask_launcher(int fd, const ViewRequest& request, net::Deadline deadline) {
  // A launcher that refuses a client closes the connection after its answer, perhaps before the request.
  const auto sent = net::send_all(fd, request_line(request), deadline);
  if (!sent && sent.error().kind != net::SocketFailure::Kind::closed) return base::Failure{sent.error().message};
  std::string answer;
  std::array<char, kChunk> bytes;
  while (answer.empty() || answer.back() != '\n') {
    const auto count = net::receive_some(fd, bytes, deadline);
    if (!count) return base::Failure{count.error().message};
    answer.append(bytes.data(), count.value());
    if (answer.size() > limits::kViewAnswerBytes) return base::Failure{"the answer is too long"};
  }
  return read_answer(std::string_view(answer).substr(0, answer.find('\n')));
}

ViewClient::ViewClient(net::EventLoop& loop, base::UniqueFd fd, Callbacks callbacks)
    : loop_(loop), fd_(std::move(fd)), callbacks_(std::move(callbacks)) {
  arm();
}

void ViewClient::send(const ViewRequest& request) {
  const std::string line = request_line(request);
  static_cast<void>(::send(fd_.get(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
}

void ViewClient::arm() {
  readable_ = loop_.watch_readable(fd_.get(), [this] {
    const auto spent = std::move(readable_);
    read();
  });
}

void ViewClient::read() {
  std::array<char, kChunk> bytes;
  const ssize_t count = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return arm();
  if (count <= 0 || received_.size() > limits::kViewAnswerBytes) return callbacks_.closed();
  received_.append(bytes.data(), static_cast<std::size_t>(count));
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = received_.find('\n', std::max(begin, searched_))) != std::string::npos;) {
    const auto answer = read_answer(std::string_view(received_).substr(begin, end - begin));
    begin = searched_ = end + 1;
    answer ? callbacks_.answered(answer.value()) : callbacks_.confused(answer.error().message);
  }
  received_.erase(0, begin);
  searched_ = received_.size();
  arm();
}

}  // namespace ddp::launcher

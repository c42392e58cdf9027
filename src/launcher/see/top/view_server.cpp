#include "launcher/see/top/view_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "launcher/limits.h"
#include "launcher/see/top/view_protocol.h"
#include "launcher/see/view/job_snapshot.h"

namespace ddp::launcher {
namespace {

using std::chrono::steady_clock;

constexpr auto kAcceptPause = std::chrono::seconds(1);        // if no descriptor is left
constexpr auto kOutputPause = std::chrono::milliseconds(50);  // lines within this time are one answer

}  // namespace

// The watches of a client are destroyed with it, and never in their own callbacks: a client that is lost stays until
// the server sweeps it.
class ViewServer::Client : public std::enable_shared_from_this<Client> {
 public:
  Client(ViewServer& server, base::UniqueFd fd) : server_(server), fd_(std::move(fd)) {}

  void begin() { read_soon(); }
  bool is_lost() const { return is_lost_; }

 private:
  void lose() {
    if (is_lost_) return;
    is_lost_ = true;
    follow_.reset();
    ::shutdown(fd_.get(), SHUT_RDWR);
    server_.sweep_soon();
  }

  void read_soon() {
    readable_ = server_.loop_.watch_readable(fd_.get(), [this] {
      const auto spent = std::move(readable_);
      read();
    });
  }

  void read() {
    std::array<char, limits::kViewRequestBytes> bytes;
    const ssize_t count = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return read_soon();
    if (count <= 0) return lose();
    received_.append(bytes.data(), static_cast<std::size_t>(count));
    answer_all();
  }

  // Answers one request after the other. A client that does not read its answers gets no more of them.
  void answer_all() {
    while (!is_lost_ && unsent() == 0) {
      const std::size_t end = received_.find('\n');
      if (end == std::string::npos) break;
      const std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      answer(line);
    }
    if (is_lost_) return;
    if (received_.size() > limits::kViewRequestBytes && received_.find('\n') == std::string::npos) return lose();
    if (unsent() == 0 && !readable_) read_soon();
  }

  void answer(const std::string& line) {
    const auto request = read_request(line);
    if (!request) return send(error_line(request.error().message));
    const int rank = request.value().rank;
    switch (request.value().want) {
      case ViewWish::snapshot:
        return send(server_.snapshot_text());
      case ViewWish::stacks:
        return take_stacks(rank);
      case ViewWish::output:
        return follow(rank);
      case ViewWish::no_output:
        follow_.reset();
        return;
    }
  }

  void take_stacks(int rank) {
    if (waits_for_stacks_) return send(error_line("stacks are being taken already"));
    waits_for_stacks_ = true;
    server_.job_.stacks(rank, [weak = weak_from_this(), rank](const std::vector<std::string>& lines) {
      const auto client = weak.lock();
      if (!client || client->is_lost_) return;
      client->waits_for_stacks_ = false;
      client->send(stacks_line(rank, lines));
    });
  }

  void follow(int rank) {
    follow_.reset();
    followed_.clear();
    followed_bytes_ = 0;
    skipped_ = 0;
    followed_rank_ = rank;
    follow_ = server_.job_.follow(rank, [weak = weak_from_this(), rank](std::string_view line) {
      const auto client = weak.lock();
      if (client && !client->is_lost_ && client->followed_rank_ == rank) client->add_output(line);
    });
    if (!follow_) {
      return send(error_line("the output of rank " + std::to_string(rank) +
                             " is not on this node. Run ddplaunch top on the node of this rank."));
    }
    send_output();
  }

  void add_output(std::string_view line) {
    if (followed_bytes_ + unsent() + line.size() > limits::kViewOutputUnsent) {
      ++skipped_;
      return;
    }
    followed_.emplace_back(line);
    followed_bytes_ += line.size() + 1;
    if (!output_due_) {
      output_due_ = server_.loop_.at(steady_clock::now() + kOutputPause, [this] {
        const auto spent = std::move(output_due_);
        send_output();
      });
    }
  }

  void send_output() {
    if (is_lost_ || !follow_ || unsent() > 0) return;
    if (skipped_ > 0) followed_.push_back("(" + std::to_string(skipped_) + " lines were not shown)");
    if (followed_.empty()) return;
    const std::string text = output_line(followed_rank_, followed_);
    followed_.clear();
    followed_bytes_ = 0;
    skipped_ = 0;
    send(text);
  }

  std::size_t unsent() const { return to_send_.size() - sent_; }

  void send(std::string_view text) {
    if (is_lost_) return;
    if (unsent() + text.size() > limits::kViewAnswerBytes) return lose();
    const bool was_empty = unsent() == 0;
    to_send_.append(text);
    if (was_empty) write();
  }

  void write() {
    while (unsent() > 0) {
      const ssize_t count = ::send(fd_.get(), to_send_.data() + sent_, unsent(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return wait_for_client();
      if (count <= 0) return lose();
      sent_ += static_cast<std::size_t>(count);
      impatient_.reset();
    }
    to_send_.clear();
    to_send_.shrink_to_fit();
    sent_ = 0;
  }

  void wait_for_client() {
    if (!impatient_) {
      impatient_ = server_.loop_.at(steady_clock::now() + limits::kViewPatience, [this] { lose(); });
    }
    writable_ = server_.loop_.watch_writable(fd_.get(), [this] {
      const auto spent = std::move(writable_);
      write();
      if (is_lost_ || unsent() > 0) return;
      send_output();
      answer_all();
    });
  }

  ViewServer& server_;
  base::UniqueFd fd_;
  std::string received_;
  std::string to_send_;
  std::size_t sent_ = 0;
  bool is_lost_ = false;
  bool waits_for_stacks_ = false;
  int followed_rank_ = -1;
  std::vector<std::string> followed_;  // lines that are sent soon
  std::size_t followed_bytes_ = 0;
  std::int64_t skipped_ = 0;  // lines for which there was no space
  std::unique_ptr<net::Watch> follow_;
  std::unique_ptr<net::Watch> readable_;
  std::unique_ptr<net::Watch> writable_;
  std::unique_ptr<net::Watch> output_due_;
  std::unique_ptr<net::Watch> impatient_;
};

ViewServer::ViewServer(net::EventLoop& loop, ListeningSocket socket, Job job)
    : loop_(loop), socket_(std::move(socket)), job_(std::move(job)) {
  arm();
}

ViewServer::~ViewServer() {
  ::unlink(socket_.path.c_str());
}

bool ViewServer::has_clients() const {
  return std::ranges::any_of(clients_, [](const auto& client) { return !client->is_lost(); });
}

void ViewServer::arm() {
  readable_ = loop_.watch_readable(socket_.fd.get(), [this] {
    const auto spent = std::move(readable_);
    accept();
  });
}

void ViewServer::accept() {
  while (true) {
    base::UniqueFd fd = accept_from(socket_.fd.get());
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return arm();
      // The socket stays readable, and the loop would run in circles.
      retry_ = loop_.at(steady_clock::now() + kAcceptPause, [this] { arm(); });
      return;
    }
    std::string refusal;
    if (!is_own_peer(fd.get())) refusal = "only the user who started the job may look at it";
    if (clients_.size() >= limits::kViewClients) refusal = "the launcher has no place for another view. Close one.";
    if (!refusal.empty()) {
      const std::string line = error_line(refusal);
      static_cast<void>(::send(fd.get(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
      continue;
    }
    clients_.push_back(std::make_shared<Client>(*this, std::move(fd)));
    clients_.back()->begin();
  }
}

void ViewServer::sweep_soon() {
  sweep_ = loop_.at(steady_clock::now(),
                    [this] { std::erase_if(clients_, [](const auto& client) { return client->is_lost(); }); });
}

const std::string& ViewServer::snapshot_text() {
  const auto now = steady_clock::now();
  if (!snapshot_taken_ || now - *snapshot_taken_ > limits::kViewSnapshotAge) {
    snapshot_text_ = snapshot_line(json_of(job_.snapshot()));
    snapshot_taken_ = now;
  }
  return snapshot_text_;
}

}  // namespace ddp::launcher

// coordinator_load PORT NODES COORDINATOR_PID PROGRAM HEARTBEAT_SECONDS CONNECTING [TOKEN_FILE]
//
// Acts as the launchers of NODES nodes, each with one control connection (docs/development/protocol.md, section 7). The
// coordinator runs on this computer and waits for them with --nnodes=NODES+1, --rdzv-id=bench and PROGRAM. The nodes
// connect, CONNECTING of them at a time, with the launcher's own client. All send hello at the same time and then send
// heartbeats for some seconds. Then one fails, and all end. Prints JSON: for each phase the time, the coordinator's
// processor time, and bytes and messages of all nodes together.
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/unique_fd.h"
#include "store/client/store_visit.h"
#include "store/store_token.h"
#include "wire/control_message.h"

namespace ddp::bench {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

double cpu_seconds(const std::string& pid) {
  double nanoseconds = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task")) {
    double used = 0;
    std::ifstream(task.path() / "schedstat") >> used;
    nanoseconds += used;
  }
  if (nanoseconds == 0) throw std::runtime_error("process " + pid + " is not there");
  return nanoseconds / 1e9;
}

double resident_bytes(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  std::string word;
  double kilobytes = 0;
  while (status >> word) {
    if (word == "VmRSS:") status >> kilobytes;
  }
  return kilobytes * 1024;
}

struct Plan {
  std::uint16_t port = 0;
  std::size_t nodes = 0;
  std::string coordinator;  // pid of the coordinator's process
  std::string program;
  int heartbeat_seconds = 0;
  std::size_t connecting = 1;
  std::shared_ptr<const store::Authenticator> token;
};

class Load {
 public:
  explicit Load(Plan plan)
      : plan_(std::move(plan)), epoll_(::epoll_create1(EPOLL_CLOEXEC)), nodes_(plan_.nodes), events_(1024) {}

  void run() {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    measure("connect", [this] { connect(); });
    measure("begin", [this] {
      for (std::size_t i = 0; i < nodes_.size(); ++i) say(i, hello(i));
      until_all_have<wire::CoordinatorBegins>("begins");
    });
    measure("heartbeats", [this] { send_heartbeats(); });
    measure("failure", [this] {
      say(nodes_.size() / 2,
          wire::NodeFailed{0, {.text = "rank 1: exited with code 3", .exit_code = 3, .may_restart = true}});
      until_all_have<wire::CoordinatorEnds>("ends");
    });
    measure("end", [this] {
      for (std::size_t i = 0; i < nodes_.size(); ++i) say(i, wire::NodeEnded{0});
      until_all_have<wire::CoordinatorIsDone>("done");
    });
    std::printf("\"nodes\": %zu}\n", nodes_.size());
  }

 private:
  struct Node {
    std::optional<store::StoreVisit> visit;
    std::string heard;
    Clock::time_point next_heartbeat;
  };

  template <typename Phase>
  void measure(const char* name, Phase&& phase) {
    messages_ = sent_bytes_ = heard_bytes_ = heard_messages_ = 0;
    const double cpu = cpu_seconds(plan_.coordinator);
    const auto start = Clock::now();
    phase();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const auto first = std::chrono::duration<double>(first_ - start).count();
    std::printf(R"(%s"%s": {"seconds": %.4f, "first_seconds": %.4f, "hub_cpu_seconds": %.4f, "said_messages": %zu, )"
                R"("said_bytes": %zu, "heard_messages": %zu, "heard_bytes": %zu, "hub_rss_bytes": %.0f}, )",
                name == std::string("connect") ? "{" : "", name, seconds, first_ > start ? first : 0.0,
                cpu_seconds(plan_.coordinator) - cpu, messages_, sent_bytes_, heard_messages_, heard_bytes_,
                resident_bytes(plan_.coordinator));
  }

  void connect() {
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    std::string failure;
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < plan_.connecting; ++i) {
      threads.emplace_back([&] {
        for (std::size_t at = next++; at < nodes_.size(); at = next++) {
          auto visit = store::StoreVisit::open("127.0.0.1", plan_.port, plan_.token, Clock::now() + 60s);
          if (visit) {
            nodes_[at].visit.emplace(std::move(visit).value());
            continue;
          }
          const std::lock_guard lock(mutex);
          failure = visit.error().message;
        }
      });
    }
    threads.clear();
    std::size_t connected = 0;
    for (const Node& node : nodes_) connected += node.visit ? 1 : 0;
    if (connected < nodes_.size()) {
      throw std::runtime_error("only " + std::to_string(connected) + " connected: " + failure);
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = i;
      if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, nodes_[i].visit->fd(), &event) != 0) {
        throw std::runtime_error("epoll_ctl: " + std::string(std::strerror(errno)));
      }
    }
  }

  // Returns the hello of a launcher whose environment has three variables that nodes compare.
  wire::NodeHello hello(std::size_t number) {
    if (fingerprint_.empty()) {
      base::Fnv1a64 hash;
      hash.update(contents(plan_.program));
      fingerprint_ = base::hex64(hash.value());
    }
    wire::NodeHello hello;
    hello.job = "bench";
    hello.host = "node" + std::to_string(number);
    hello.workers = 8;
    hello.nodes = std::to_string(nodes_.size() + 1);
    hello.same["program " + plan_.program.substr(plan_.program.rfind('/') + 1)] = fingerprint_;
    hello.alike["ddplaunch's version"] = "0";
    hello.alike["the program's arguments"] = "train.py --config=config.yaml --batch-size=32";
    hello.alike["NCCL_DEBUG"] = "WARN";
    hello.alike["NCCL_IB_HCA"] = "mlx5";
    hello.alike["NCCL_IB_TIMEOUT"] = "22";
    return hello;
  }

  void say(std::size_t number, const wire::ControlMessage& message) {
    const std::string bytes = wire::encode(message);
    const std::string request = store::StoreVisit::control_request(bytes);
    if (!net::send_all(nodes_[number].visit->fd(), request, Clock::now() + 10s))
      throw std::runtime_error("the coordinator has hung up");
    ++messages_;
    sent_bytes_ += 1 + sizeof(std::uint64_t) + bytes.size();
  }

  // Sends one heartbeat per node and second, spread over the second, like launchers that have started at different
  // times.
  void send_heartbeats() {
    const auto start = Clock::now();
    const auto end = start + std::chrono::seconds(plan_.heartbeat_seconds);
    const auto step = std::chrono::nanoseconds(1s) / static_cast<std::int64_t>(nodes_.size());
    std::size_t next = 0;
    for (auto due = start; due < end; due += step) {
      while (due > Clock::now()) hear(std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now()));
      say(next++ % nodes_.size(), wire::NodeHeartbeat{});
    }
  }

  template <typename Message>
  void until_all_have(const char* what) {
    wanted_ = wire::ControlMessage(Message{}).index();
    have_ = 0;
    while (have_ < nodes_.size()) {
      if (!hear(30'000ms)) throw std::runtime_error("only " + std::to_string(have_) + " have heard " + what);
    }
  }

  bool hear(std::chrono::milliseconds patience) {
    const int ready = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                                   static_cast<int>(patience.count()));
    for (int i = 0; i < ready; ++i) read(nodes_[events_[static_cast<std::size_t>(i)].data.u64]);
    return ready > 0;
  }

  void read(Node& node) {
    std::array<char, 16 << 10> buffer;
    const ssize_t got = ::recv(node.visit->fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, node.visit->fd(), nullptr);
      return;
    }
    heard_bytes_ += static_cast<std::size_t>(got);
    node.heard.append(buffer.data(), static_cast<std::size_t>(got));
    std::uint64_t length = 0;
    while (node.heard.size() >= sizeof length) {
      std::memcpy(&length, node.heard.data(), sizeof length);
      if (node.heard.size() < sizeof length + length) return;
      const auto message = wire::decode_control(std::string_view(node.heard).substr(sizeof length, length));
      node.heard.erase(0, sizeof length + length);
      if (!message) throw std::runtime_error("the coordinator speaks another version");
      if (const auto* refuses = std::get_if<wire::CoordinatorRefuses>(&*message))
        throw std::runtime_error(refuses->why);
      ++heard_messages_;
      if (message->index() == wanted_ && have_++ == 0) first_ = Clock::now();
    }
  }

  const Plan plan_;
  const base::UniqueFd epoll_;
  std::vector<Node> nodes_;
  std::vector<epoll_event> events_;
  std::string fingerprint_;
  std::size_t wanted_ = 0;
  std::size_t have_ = 0;
  Clock::time_point first_;
  std::size_t messages_ = 0, sent_bytes_ = 0, heard_messages_ = 0, heard_bytes_ = 0;
};

Plan parse(int count, char** words) {
  Plan plan;
  plan.port = static_cast<std::uint16_t>(std::stoi(words[1]));
  plan.nodes = std::stoul(words[2]);
  plan.coordinator = words[3];
  plan.program = words[4];
  plan.heartbeat_seconds = std::stoi(words[5]);
  plan.connecting = std::stoul(words[6]);
  if (count < 8) return plan;
  auto token = store::StoreToken::from_file(words[7]);
  if (!token) throw std::runtime_error(token.error().message);
  plan.token = std::move(token).value();
  return plan;
}

}  // namespace
}  // namespace ddp::bench

int main(int count, char** words) {
  if (count != 7 && count != 8) {
    std::fprintf(stderr, "usage: %s PORT NODES COORDINATOR_PID PROGRAM HEARTBEAT_SECONDS CONNECTING [TOKEN_FILE]\n",
                 words[0]);
    return 2;
  }
  try {
    ddp::bench::Load(ddp::bench::parse(count, words)).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "coordinator_load: %s\n", error.what());
    return 1;
  }
}

// nodes_cost MESSAGE_US BYTE_NS LATENCY_US
//
// Computes the cost of N nodes without sockets. First the coordinator itself (launcher/run/job/coordinator.h) runs a
// job of N nodes from hello to done, with a failure in it. Its messages, their bytes, and the time of its decisions are
// printed, one JSON object per line. Then the time of the same job is computed in two layouts. Either all nodes are
// connected to the coordinator, or each launcher relays for 32 or 64 others. A message costs its sender and its
// receiver MESSAGE_US and BYTE_NS per byte, one after the other, and arrives after LATENCY_US. The tree is only
// computed: the product has none.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "launcher/run/job/coordinator.h"
#include "launcher/run/ranks/shown_ranks.h"
#include "wire/status_page_layout.h"

namespace ddp::bench {
namespace {

using namespace std::chrono_literals;
using launcher::Coordinator;
using launcher::NodeId;
using Clock = std::chrono::steady_clock;

constexpr std::array kSizes = {10, 100, 1'000, 10'000, 12'500, 100'000};
constexpr double kFrame = 9;          // bytes of a message besides its JSON: an opcode and a length, or a length
constexpr double kRelayedBytes = 40;  // bytes that a relay reports for each node below it, once all have joined

struct Sizes {
  double hello = 0, begins = 0, failed = 0, ends = 0, ended = 0, done = 0;
};

// Runs the coordinator's part of a job whose nodes all have a node rank.
class CoordinatorAlone {
 public:
  explicit CoordinatorAlone(int nodes)
      : nodes_(nodes),
        coordinator_(
            {.nodes = {.min = nodes + 1, .max = nodes + 1, .rank = 0, .join_timeout = 1h, .node_timeout = 10s}},
            hello(0), now_) {}

  Sizes run() {
    Sizes sizes;
    coordinator_.begin(now_);
    sizes.hello = bytes(hello(1));
    const double begin = from_all([this](int i) { return hello(i); });
    sizes.begins = sent_bytes_;
    const double heartbeats = timed([this] {
      for (int i = 1; i <= nodes_; ++i) hear(i, wire::NodeHeartbeat{});
      take(coordinator_.tick(now_ += 1s));
    });
    const wire::NodeFailed failed{0, {.text = "rank 5: exited with code 3", .exit_code = 3, .may_restart = true}};
    sizes.failed = bytes(failed);
    const double failure = timed([&] { hear(nodes_ / 2 + 1, failed); });
    sizes.ends = sent_bytes_;
    hear(0, wire::NodeEnded{0});
    sizes.ended = bytes(wire::NodeEnded{0});
    const double end = from_all([](int) { return wire::NodeEnded{0}; });
    sizes.done = sent_bytes_;
    std::printf(
        R"({"nodes": %d, "hub_ms": {"begin": %.2f, "heartbeats_a_second": %.2f, "failure": %.2f, "end": %.2f}, )"
        R"("bytes": {"hello": %.0f, "begins": %.0f, "failed": %.0f, "ends": %.0f, "ended": %.0f, "done": %.0f}})"
        "\n",
        nodes_, begin, heartbeats, failure, end, sizes.hello, sizes.begins, sizes.failed, sizes.ends, sizes.ended,
        sizes.done);
    return sizes;
  }

 private:
  static wire::NodeHello hello(int number) {
    wire::NodeHello hello;
    hello.job = "bench";
    hello.host = "node" + std::to_string(number);
    hello.workers = 8;
    hello.node_rank = number;
    hello.nodes = "100000";
    hello.same["program train"] = "0123456789abcdef";
    hello.alike["ddplaunch's version"] = "0";
    hello.alike["the program's arguments"] = "train.py --config=config.yaml --batch-size=32";
    return hello;
  }
  static double bytes(const wire::ControlMessage& message) {
    return static_cast<double>(wire::encode(message).size()) + kFrame;
  }
  template <typename Make>
  double from_all(Make&& make) {
    return timed([&] {
      for (int i = 1; i <= nodes_; ++i) hear(i, make(i));
    });
  }
  template <typename Work>
  double timed(Work&& work) {
    sent_bytes_ = 0;
    const auto start = Clock::now();
    work();
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
  void hear(int from, const wire::ControlMessage& message) {
    take(coordinator_.heard(static_cast<NodeId>(from), "10.1.2.3", message, now_));
  }
  // Encodes only one of the messages that the coordinator sends together: the last node's.
  void take(const std::vector<launcher::CoordinatorAction>& actions) {
    for (auto action = actions.rbegin(); action != actions.rend(); ++action) {
      const auto* send = std::get_if<launcher::SendToNode>(&*action);
      if (send == nullptr) continue;
      sent_bytes_ = bytes(send->message);
      return;
    }
  }

  const int nodes_;
  Coordinator::TimePoint now_{1h};
  Coordinator coordinator_;
  double sent_bytes_ = 0;
};

struct Costs {
  double message_us, byte_ns, latency_us;
  double of(double bytes) const { return message_us + bytes * byte_ns / 1e3; }
};

// The parent of a node is (node - 1) / fan_out, and node 0 is the coordinator. Times are in microseconds.
class Tree {
 public:
  Tree(int nodes, int fan_out, const Costs& costs)
      : count_(static_cast<std::size_t>(nodes) + 1),
        fan_out_(static_cast<std::size_t>(fan_out)),
        costs_(costs),
        below_(count_, 0) {
    for (std::size_t i = count_ - 1; i > 0; --i) below_[parent(i)] += below_[i] + 1;
  }

  // Each node sends a message; a relay sends its own when all nodes below it have sent theirs. Returns the time when
  // the coordinator has all messages.
  double gather(double bytes, double bytes_below) const {
    std::vector<std::vector<std::pair<double, double>>> arrivals(count_);  // time of arrival, and cost
    double ready = 0;
    for (std::size_t i = count_; i-- > 0;) {
      std::ranges::sort(arrivals[i]);
      ready = 0;
      for (const auto& [when, cost] : arrivals[i]) ready = std::max(ready, when) + cost;
      arrivals[i].clear();
      if (i == 0) break;
      const double cost = costs_.of(bytes + bytes_below * static_cast<double>(below_[i]));
      arrivals[parent(i)].emplace_back(ready + cost + costs_.latency_us, cost);
    }
    return ready;
  }
  // The coordinator sends a message to all nodes. Returns the time when the last one has it.
  double spread(double bytes) const {
    std::vector<double> free_at(count_, 0);
    double last = 0;
    for (std::size_t i = 1; i < count_; ++i) {
      free_at[parent(i)] += costs_.of(bytes);
      free_at[i] = free_at[parent(i)] + costs_.latency_us + costs_.of(bytes);
      last = std::max(last, free_at[i]);
    }
    return last;
  }
  // Returns the time that a message takes from the last node to the coordinator.
  double rise(double bytes) const {
    double time = 0;
    for (std::size_t i = count_ - 1; i > 0; i = parent(i)) time += 2 * costs_.of(bytes) + costs_.latency_us;
    return time;
  }
  // Returns the heartbeats at the coordinator, in both directions: one per neighbour. No other node has more.
  std::size_t heartbeats_at_coordinator() const { return 2 * std::min(fan_out_, count_ - 1); }
  int depth() const {
    int depth = 0;
    for (std::size_t i = count_ - 1; i > 0; i = parent(i)) ++depth;
    return depth;
  }

 private:
  std::size_t parent(std::size_t i) const { return (i - 1) / fan_out_; }

  const std::size_t count_;
  const std::size_t fan_out_;
  const Costs costs_;
  std::vector<std::size_t> below_;
};

void compute(int nodes, int fan_out, const Costs& costs, const Sizes& sizes) {
  const Tree tree(nodes, fan_out, costs);
  const double begin = tree.gather(sizes.hello, kRelayedBytes) + tree.spread(sizes.begins);
  const double failure = tree.rise(sizes.failed) + tree.spread(sizes.ends);
  const double end = tree.gather(sizes.ended, 0) + tree.spread(sizes.done);
  const double heartbeats = static_cast<double>(tree.heartbeats_at_coordinator());
  std::printf(R"({"nodes": %d, "fan_out": %d, "depth": %d, "begin_ms": %.2f, "failure_ms": %.2f, "end_ms": %.2f, )"
              R"("heartbeats_at_hub_a_second": %.0f, "hub_busy_with_heartbeats": %.4f})"
              "\n",
              nodes, fan_out, tree.depth(), begin / 1e3, failure / 1e3, end / 1e3, heartbeats,
              heartbeats * costs.of(30) / 1e6);
}

// Measures the digest of a node with 8 ranks, all of which have news. Each rank has two groups, with as many calls as a
// page holds.
void measure_digest() {
  std::vector<launcher::RankView> ranks(8);
  for (int rank = 0; rank < 8; ++rank) {
    launcher::RankView& view = ranks[static_cast<std::size_t>(rank)];
    view.rank = rank;
    view.pid = 4711 + rank;
    view.page.is_written = true;
    view.page.phase = launcher::RankPhase::training;
    for (const char* name : {"world", "shard"}) {
      view.page.groups.push_back({name, rank, 8, 0, 123456, 123456, 123455, 0, 0});
      view.calls.emplace_back();
      for (std::uint64_t i = 0; i < wire::kPageCalls; ++i) {
        view.calls.back().push_back({123441 + i, 0x9e3779b97f4a7c15 * i, 0, "", "", ""});
      }
    }
  }
  constexpr int kTimes = 2000;
  const auto microseconds = [](auto work) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) work();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / kTimes;
  };
  std::string bytes;
  const double written = microseconds([&] {
    const std::string text = launcher::show_ranks(ranks, launcher::ShownCalls::digest);
    bytes = wire::encode(wire::NodeShows{0, wire::Subject::ranks, text});
  });
  std::size_t seen = 0;
  const double read = microseconds([&] {
    const auto message = wire::decode_control(bytes);
    seen += launcher::read_ranks(std::get<wire::NodeShows>(*message).text, "b", std::chrono::nanoseconds(0)).size();
  });
  std::printf(R"({"digest_of_ranks": %zu, "bytes": %zu, "write_us": %.0f, "read_us": %.0f})"
              "\n",
              seen / kTimes, bytes.size(), written, read);
}

}  // namespace
}  // namespace ddp::bench

int main(int count, char** words) {
  if (count != 4) {
    std::fprintf(stderr, "usage: %s MESSAGE_US BYTE_NS LATENCY_US\n", words[0]);
    return 2;
  }
  const ddp::bench::Costs costs{std::stod(words[1]), std::stod(words[2]), std::stod(words[3])};
  ddp::bench::measure_digest();
  for (const int nodes : ddp::bench::kSizes) {
    const auto sizes = ddp::bench::CoordinatorAlone(nodes).run();
    for (const int fan_out : {nodes, 32, 64}) ddp::bench::compute(nodes, fan_out, costs, sizes);
  }
}

// Tests groups on several nodes that lose a rank, or wait for one in vain. All ranks name it.
#include "runtime/peers/lost_rank.h"

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "support/backends_under_test.h"
#include "support/catch.h"
#include "support/node_groups.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
using namespace std::chrono_literals;

namespace {

std::string two_on_each(int rank) {
  return rank < 2 ? "a" : "b";
}
std::string one_on_each(int rank) {
  return std::string(1, static_cast<char>('a' + rank));
}

Error lost(int rank, const std::string& text) {
  return {ErrorKind::peer_lost, text, rank};
}

// Simulates a server that no longer answers.
class SilentStore : public Store {
 public:
  void close() { closed_.set_value(); }

  void set(const std::string& key, std::string_view) override { (void)get(key); }
  std::string get(const std::string&) override {
    silence_.wait();
    throw Error(ErrorKind::unavailable, "the store is gone");
  }
  std::string compare_set(const std::string& key, std::string_view, std::string_view) override { return get(key); }
  void wait(std::span<const std::string> keys, std::chrono::milliseconds) override { (void)get(keys[0]); }
  std::vector<std::string> multi_get(std::span<const std::string>) override { return {}; }
  std::int64_t add(const std::string&, std::int64_t) override { return 0; }
  bool check(std::span<const std::string>) override { return false; }
  bool delete_key(const std::string&) override { return false; }
  std::chrono::milliseconds timeout() const override { return kPatience; }

 private:
  std::promise<void> closed_;
  std::shared_future<void> silence_ = closed_.get_future().share();
};

}  // namespace

TEST_CASE("the first report of a lost rank counts unless the rank's own node reports another one") {
  auto nodes = meet_on_nodes(3, two_on_each);
  const auto store = make_memory_store(kPatience);
  CHECK(LostRank(nodes[2], store, kPatience).agree(lost(0, "rank 0 has exited, or given up")).peer() == 0);
  CHECK(LostRank(nodes[1], store, kPatience).agree(lost(2, "rank 2 has exited, or given up")).peer() == 0);
  CHECK(LostRank(nodes[0], store, kPatience).agree(lost(1, "rank 1 has exited, or given up")).peer() == 0);
  nodes[1].reset();
  CHECK(LostRank(nodes[0], store, kPatience).agree(lost(1, "rank 1 has exited")).peer() == 1);
  const Error agreed = LostRank(nodes[2], store, kPatience).agree(lost(0, "rank 0 has exited, or given up"));
  CHECK(agreed.peer() == 1);
  CHECK(std::string(agreed.what()) == "rank 1 has exited");
  CHECK(agreed.kind() == ErrorKind::peer_lost);
}

TEST_CASE("an agreed lost rank changes only if this node sees another one exit") {
  auto nodes = meet_on_nodes(3, two_on_each);
  nodes[1].reset();
  LostRank lost_rank(nodes[0], make_memory_store(kPatience), kPatience);
  CHECK(lost_rank.agree(lost(2, "rank 2 has exited, or given up")).peer() == 2);
  CHECK(lost_rank.agree(lost(Error::kNobody, "a rank has exited")).peer() == 2);
  CHECK(lost_rank.agree(lost(1, "rank 1 has exited")).peer() == 1);
  CHECK(lost_rank.agree(lost(2, "rank 2 has exited, or given up")).peer() == 1);
}

TEST_CASE("a failed rank on the same node is not reported as the cause") {
  const auto nodes = meet_on_nodes(3, two_on_each);
  const auto store = make_memory_store(kPatience);
  CHECK(LostRank(nodes[1], store, kPatience).agree(lost(2, "rank 2 has exited, or given up")).peer() == 2);
  nodes[1]->say_failed();
  CHECK(LostRank(nodes[0], store, kPatience).agree(lost(1, "rank 1 has failed")).peer() == 2);
}

TEST_CASE("a failure that concerns only this rank is not shared") {
  const auto nodes = meet_on_nodes(2, one_on_each);
  const auto store = make_memory_store(kPatience);
  const Error wrong = LostRank(nodes[0], store, kPatience).agree(Error(ErrorKind::mismatch, "other counts", 1));
  CHECK(wrong.kind() == ErrorKind::mismatch);
  CHECK(store->num_keys() == 0);
}

TEST_CASE("a store that has exited delays no rank") {
  const auto nodes = meet_on_nodes(2, one_on_each);
  const auto store = std::make_shared<SilentStore>();
  const Error ended = LostRank(nodes[0], store).agree(lost(1, "rank 1 has exited"));
  CHECK(ended.peer() == 1);
  CHECK_THAT(ended.what(), Catch::StartsWith("rank 1 has exited; the store") && Catch::Contains("does not answer"));
  CHECK(LostRank(nodes[0], store).agree(lost(Error::kNobody, "a rank has exited")).peer() == Error::kNobody);
  store->close();
}

TEST_CASE("all ranks of all nodes name the rank that left") {
  for (const BackendUnderTest& backend : {cpu_between_nodes(), gloo_backend()}) {
    for (const auto& node_of : {two_on_each, one_on_each}) {
      INFO(backend.name << ", rank 1 on node " << node_of(1));
      RankThreads(backend.make, 4).on(node_of).all_succeed([](RankThreads::Rank& self) {
        std::vector<float> values(100'000, 1.0F);
        self.group().all_reduce(values).wait();
        if (self.rank() == 3) return self.leaves();
        try {
          while (true) self.group().all_reduce(values).wait();
        } catch (const Error& error) {
          require(error.kind() == ErrorKind::peer_lost, error.what());
          require(error.peer() == 3, error.what());
          require(std::string(error.what()).find("has exited") != std::string::npos, error.what());
        }
      });
    }
  }
}

TEST_CASE("a rank of another node that itself waits is not blamed") {
  RankThreads(cpu_between_nodes().make, 4).on(two_on_each).all_succeed([](RankThreads::Rank& self) {
    if (self.rank() == 3) return self.waits_for(3);
    std::vector<float> values(100'000);
    CallOptions options;
    options.timeout = 1s;
    const RankOutcome late = outcome_of([&] { self.group().all_reduce(values, ReduceOp::sum, options).wait(); });
    const auto says = [&](const std::string& words) { return late.message.find(words) != std::string::npos; };
    require(late.kind == ErrorKind::timeout || late.kind == ErrorKind::peer_lost, late.message);
    require(says("rank 3 did not take part within 1.0 s") || says("some of ranks 2, 3, on other nodes, did not") ||
                says("rank 0 has failed") || says("rank 1 has failed"),
            late.message);
  });
}

TEST_CASE("in detail mode the parts from ranks of other nodes are compared as well") {
  for (const BackendUnderTest& backend : {cpu_between_nodes(), gloo_backend()}) {
    INFO(backend.name);
    RankThreads(backend.make, 3)
        .on([](int rank) { return std::string(rank < 2 ? "a" : "b"); })
        .with_detail()
        .all_fail(ErrorKind::mismatch,
                  {"rank 2 sends 40000 elements to rank 0, which has a buffer for 30000", "lost_rank_test.cpp:"},
                  [](RankThreads::Rank& self) {
                    std::vector<float> values(self.rank() == 2 ? 40'000 : 30'000);
                    std::vector<float> all(90'000);
                    self.group().gather(self.rank() == 0 ? Buffer(all) : Buffer(), values, 0).wait();
                  });
  }
}

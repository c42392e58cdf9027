// Tests a Work that an exception passes, and what continuations may do.
#include <ddp/work.h>

#include <sys/mman.h>

#include <atomic>
#include <future>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/backends_under_test.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/random_seed.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::test;
using namespace std::chrono_literals;

namespace {

// Holds memory that the kernel takes away at the end, so that any later access crashes.
class Mapped {
 public:
  explicit Mapped(std::size_t count)
      : bytes_(count * sizeof(float)),
        data_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    require(data_ != MAP_FAILED, "mmap");
  }
  ~Mapped() { ::munmap(data_, bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  Buffer buffer() const { return {data_, bytes_ / sizeof(float), DataType::f32}; }

 private:
  std::size_t bytes_;
  void* data_;
};

// Blocks in run() until abort(), and counts.
class EndlessBackend : public Backend {
 public:
  explicit EndlessBackend(std::shared_ptr<std::atomic<int>> running) : running_(std::move(running)) {}

  std::string_view name() const override { return "endless"; }
  void run(const Call&) override {
    ++*running_;
    aborted_.get_future().wait();
    --*running_;
    throw Error(ErrorKind::aborted, "the process group was aborted");
  }
  void abort() override {
    if (!done_.exchange(true)) aborted_.set_value();
  }

 private:
  std::shared_ptr<std::atomic<int>> running_;
  std::promise<void> aborted_;
  std::atomic<bool> done_ = false;
};

using Start = std::function<Work(const ProcessGroup& group, const Buffer& buffer, int peer)>;

struct Operations {
  const char* name;
  Start start;
};

// All of them wait for the other rank.
std::vector<Operations> operations() {
  return {{"recv", [](const ProcessGroup& group, const Buffer& buffer, int peer) { return group.recv(buffer, peer); }},
          {"all_reduce", [](const ProcessGroup& group, const Buffer& buffer, int) { return group.all_reduce(buffer); }},
          {"broadcast",
           [](const ProcessGroup& group, const Buffer& buffer, int peer) { return group.broadcast(buffer, peer); }},
          {"all_to_all", [](const ProcessGroup& group, const Buffer& buffer, int) {
             const std::size_t half = buffer.count / 2;
             return group.all_to_all(buffer.slice(0, half), buffer.slice(half, half));
           }}};
}

}  // namespace

TEST_CASE("an exception during a pending operation may unmap its memory", "[slow]") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    for (const Operations& operation : operations()) {
      INFO(backend.name << ", " << operation.name);
      std::promise<void> passed;
      const std::shared_future<void> has_passed = passed.get_future().share();
      RankThreads(backend.make, 2).all_succeed([&](RankThreads::Rank& self) {
        std::vector<float> values(400'000, 1.0F);
        if (self.rank() == 0) {
          try {
            const Mapped memory(values.size());
            [[maybe_unused]] const Work pending = operation.start(self.group(), memory.buffer(), 1);
            throw std::runtime_error("bad sample");
          } catch (const std::runtime_error&) {
            passed.set_value();
          }
          require(outcome_of([&] { self.group().barrier().wait(); }).kind == ErrorKind::aborted,
                  "the group is aborted");
          return self.waits_for_the_others();
        }
        has_passed.wait();
        const std::string name = operation.name;
        // The operation would write into the memory of rank 0 now.
        static_cast<void>(outcome_of([&] {
          (name == "recv" ? self.group().send(values, 0) : operation.start(self.group(), values, 1)).wait();
        }));
      });
    }
  }
}

TEST_CASE("no rank uses the memory of an operation aborted at any moment") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    const std::chrono::microseconds moment(random() % 5000);
    RankThreads(cpu_near().make, 3).all_succeed([&](RankThreads::Rank& self) {
      const Mapped memory(100'000);
      std::thread aborting;
      if (self.rank() == 0) {
        aborting = std::thread([&] {
          std::this_thread::sleep_for(moment);
          self.group().abort();
        });
      }
      static_cast<void>(outcome_of([&] {
        while (true) self.group().all_reduce(memory.buffer()).wait();
      }));
      if (aborting.joinable()) aborting.join();
    });
  }
}

TEST_CASE("an operation that is about to end is not aborted by an exception") {
  RankThreads(cpu_near().make, 2).all_succeed([](RankThreads::Rank& self) {
    std::vector<float> values(400'000, 1.0F);
    try {
      [[maybe_unused]] const Work pending = self.group().all_reduce(values);
      throw std::runtime_error("handled");
    } catch (const std::runtime_error&) {
      require(values[399'999] == 2, "it was carried out");
    }
    self.group().all_reduce(values).wait();
    require(values[0] == 4, "the group works");
  });
}

TEST_CASE("a work started by a destructor during an exception is not aborted") {
  const auto running = std::make_shared<std::atomic<int>>(0);
  std::optional<ProcessGroup> group = make_group(std::make_unique<EndlessBackend>(running), 0, 2);
  struct CallsAtEnd {
    const ProcessGroup& group;
    ~CallsAtEnd() { const Work dropped = group.barrier(); }
  };
  try {
    const CallsAtEnd last{*group};
    throw std::runtime_error("bad sample");
  } catch (const std::runtime_error&) {
  }
  REQUIRE(eventually([&] { return *running == 1; }));
  group->abort();
}

TEST_CASE("an exception within a batch aborts the operations that have not begun") {
  const auto running = std::make_shared<std::atomic<int>>(0);
  const ProcessGroup group = make_group(std::make_unique<EndlessBackend>(running), 0, 2);
  try {
    const CollectiveBatch batch = group.batch();
    [[maybe_unused]] const Work pending = group.barrier();
    throw std::runtime_error("bad sample");
  } catch (const std::runtime_error&) {
  }
  expect_error(ErrorKind::aborted, {"an exception passed the Work"}, [&] { group.barrier().wait(); });
  CHECK(*running == 0);
}

TEST_CASE("an exception within a continuation does not wait for the continuation") {
  ScriptedGroup scripted;
  scripted.script->block();
  std::vector<Work> works;
  works.push_back(scripted.group.barrier());
  std::promise<void> heard;
  works[0].then([&](const Error*) {
    try {
      [[maybe_unused]] const Work pending = scripted.group.barrier();
      throw std::runtime_error("bad sample");
    } catch (const std::runtime_error&) {
      heard.set_value();
    }
  });
  scripted.script->release();
  REQUIRE(heard.get_future().wait_for(kPatience) == std::future_status::ready);
  works[0].wait();
  expect_error(ErrorKind::aborted, {"an exception passed the Work"}, [&] { scripted.group.barrier().wait(); });
}

TEST_CASE("waiting within a continuation is rejected, and the error belongs to the operation") {
  for (const bool with_limit : {false, true}) {
    for (const bool already_done : {false, true}) {
      ScriptedGroup scripted;
      ScriptedGroup another;
      Work other = another.group.barrier();
      scripted.script->block();
      Work work = scripted.group.barrier();
      const auto waits = [&](const Error*) { with_limit ? static_cast<void>(other.wait_for(1s)) : other.wait(); };
      const std::vector<std::string> words = {with_limit ? "Work::wait_for" : "Work::wait", "within a continuation"};
      if (already_done) {
        scripted.script->release();
        work.wait();
        expect_error(ErrorKind::invalid_argument, words, [&] { work.then(waits); });
      } else {
        int others = 0;
        work.then(waits);
        work.then([&](const Error*) { ++others; });
        scripted.script->release();
        expect_error(ErrorKind::invalid_argument, words, [&] { work.wait(); });
        CHECK(others == 1);
        expect_error(ErrorKind::aborted, {"a continuation (Work::then) threw"},
                     [&] { scripted.group.barrier().wait(); });
      }
      other.wait();
    }
  }
}

TEST_CASE("an exception from a continuation fails its operation on any thread") {
  for (const bool waits : {false, true}) {
    ScriptedGroup scripted;
    scripted.script->block();
    Work work = scripted.group.barrier();
    work.then([](const Error*) { throw std::runtime_error("surprise"); });
    scripted.script->release();
    if (!waits) REQUIRE(eventually([&] { return work.done(); }));
    expect_error(ErrorKind::internal, {"surprise"}, [&] { work.wait(); });
  }
}
